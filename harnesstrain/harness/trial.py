"""The manifest's check command, in the jail: time-limited, output bounded, on a private copy of the files."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from harnesstrain.core import confinement
from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness import jail
from harnesstrain.harness.jail import JailLimits, Launch
from harnesstrain.harness.pipes import CHUNK, BoundedLog
from harnesstrain.harness.worktrees import copy

OUTPUT_BYTES = 262_144
"""Of a check's output: head and tail are kept."""


class CheckResult(Record):
    """What a check said."""

    ok: bool
    output: str
    """stdout and stderr together, bounded."""
    code: int = 0
    timed_out: bool = False


def run_check(
    worktree: Path,
    manifest: Manifest,
    *,
    isolated: bool = True,
    limits: JailLimits | None = None,
    environment: Path | None = None,
) -> CheckResult:
    """Run the manifest's check on a private copy of `worktree`.  Without a check the answer is yes.

    `environment`: a virtual environment instead of the manifest's.  Raises Prerequisite, ConfigError.
    """
    if not manifest.check:
        return CheckResult(ok=True, output="the manifest names no check")
    with ExitStack() as held:
        place, tmp = worktree, None
        if not isolated:
            scratch = TemporaryDirectory(prefix="ht-check-", ignore_cleanup_errors=True)
            tmp = Path(held.enter_context(scratch))
            place = tmp / "harness"
            copy(worktree, place)
        how = jail.launch(
            place,
            manifest,
            isolated=isolated,
            limits=limits or JailLimits(),
            environment=environment,
            command=manifest.check,
            scratch=True,
            tmp=tmp,
        )
        return _run(how, manifest.check_timeout)


def _run(how: Launch, timeout: float) -> CheckResult:
    try:
        process = subprocess.Popen(
            how.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(how.env) if how.env is not None else None,
            cwd=how.cwd,
            start_new_session=True,
        )
    except OSError as error:
        message = f"cannot start the check: {how.argv[0]}: {error.strerror}"
        raise ConfigError(message, hint="correct `check` in harness.toml") from error
    log = BoundedLog(OUTPUT_BYTES)
    try:
        timed_out = not _collect(process, log, timeout)
    finally:
        code = _end(process, how)
        assert process.stdout is not None
        process.stdout.close()
    output = log.text()
    if timed_out:
        return CheckResult(ok=False, output=f"{output}\n[stopped after {timeout:g} seconds]", code=124, timed_out=True)
    return CheckResult(ok=code == 0, output=output, code=128 - code if code < 0 else code)


def _collect(process: subprocess.Popen[bytes], log: BoundedLog, timeout: float) -> bool:
    """Read until the check ends; False when the time is over."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    os.set_blocking(fd, False)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        if poll.poll(min(left, 0.25) * 1000):
            chunk = os.read(fd, CHUNK)
            if chunk:
                log.feed(chunk)
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
                return True
            return False
        if process.poll() is not None:
            return True
    return False


def _end(process: subprocess.Popen[bytes], how: Launch) -> int:
    if how.isolated:
        return confinement.stop(process)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()
