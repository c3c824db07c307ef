"""The sandbox boundary: one environment action, canonical, timed, recorded.  Results are raw, never rewritten."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harnesstrain.core.digests import digest_bytes, encoder
from harnesstrain.core.records.cache import StepEntry
from harnesstrain.core.records.rollout import Source, Step, StepKind
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.sandbox.base import FileFault, Session

DEFAULT_TIMEOUT = 120.0
"""Seconds a command gets when the harness names no limit."""

_encode = encoder(sort_keys=True, ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Action:
    """One environment action.  `spec` is what the chain digest covers."""

    kind: StepKind
    spec: dict[str, Any]
    data: bytes = b""
    """run: stdin; write: content."""
    doing: Callable[[Session], RunResult] | None = field(default=None, compare=False, repr=False)
    """What the driver does itself; None: what `spec` says."""

    @functools.cached_property
    def digest(self) -> str:
        """What the chain rolls over.  Exact: two commands that differ in one code point are two actions."""
        return digest_bytes(self._text.encode())

    @functools.cached_property
    def _text(self) -> str:
        """JSON with sorted keys and no Unicode normalisation: what is recorded is what ran."""
        return _encode(self.spec)

    @property
    def recorded(self) -> str:
        """The spec with its bytes as JSON, so that a chain can be executed again from its record alone."""
        return _encode(self.spec | {"bytes": self.data.hex()}) if self.data else self._text

    @property
    def command(self) -> str:
        """What scrub rules see as the command."""
        return str(self.spec.get("command") or f"{self.kind.value} {self.spec.get('path') or self.spec.get('step')}")


@dataclass(frozen=True)
class Acted:
    """An action's raw result, and the file error it ended with, if any."""

    result: RunResult
    fault: FileFault | None = None


def run_action(command: str, cwd: str | None, timeout: float | None, stdin: bytes | None) -> Action:
    """`env.run`."""
    spec = {"kind": "run", "command": command, "cwd": cwd, "timeout": timeout}
    return Action(StepKind.RUN, spec | {"stdin": digest_bytes(stdin) if stdin is not None else None}, stdin or b"")


def read_action(path: str) -> Action:
    """`env.read`."""
    return Action(StepKind.READ, {"kind": "read", "path": path})


def write_action(path: str, data: bytes, mode: int) -> Action:
    """`env.write`."""
    return Action(StepKind.WRITE, {"kind": "write", "path": path, "data": digest_bytes(data), "mode": mode}, data)


def asked(action: Action) -> float:
    """Seconds the action may take, as far as the harness is concerned."""
    return float(action.spec.get("timeout") or DEFAULT_TIMEOUT)


def patience(step: Step) -> float:
    """Seconds that executing a recorded action again may take: what it took, generously; a slow machine is no fork."""
    return step.duration + 0.5 if step.timed_out else max(60.0, step.duration * 10)


def act(session: Session, action: Action, remaining: float) -> Acted:
    """Execute one action within its own limit and `remaining` seconds.  Raises SandboxFailure."""
    return perform(session, action, min(asked(action), remaining))


def perform(session: Session, action: Action, seconds: float) -> Acted:
    """Execute one action.  `seconds`: a bound on a command's time, whatever the harness asked for.

    Raises SandboxFailure when the sandbox goes away.
    """
    if action.doing is not None:
        return Acted(action.doing(session))
    if action.kind is StepKind.RUN:
        stdin = action.data if action.spec["stdin"] is not None else None
        command, cwd = action.spec["command"], action.spec["cwd"]
        return Acted(session.run(command, cwd=cwd, timeout=seconds, stdin=stdin))
    try:
        if action.kind is StepKind.READ:
            return Acted(RunResult(exit_code=0, stdout=session.read(action.spec["path"])))
        session.write(action.spec["path"], action.data, action.spec["mode"])
        return Acted(RunResult(exit_code=0))
    except FileFault as fault:
        return Acted(RunResult(exit_code=1, stderr=fault.message.encode()), fault)


def step_of(index: int, action: Action, entry: StepEntry, source: Source, chain: str) -> Step:
    """The record of an action.  `chain`: chain digest after it."""
    result = entry.result
    return Step.trusted(
        index=index,
        kind=action.kind,
        source=source,
        duration=result.duration,
        request_digest=chain,
        action=action.recorded,
        exit_code=result.exit_code,
        stdout=result.stdout,
        stderr=result.stderr,
        scrubbed_digest=entry.scrubbed,
        raw_digest=entry.raw,
        timed_out=result.timed_out,
        truncated=result.truncated,
        live_only=result.timed_out or result.left > 0,
        error=entry.message,
    )


def cut_step(index: int, action: Action, seconds: float, source: Source, chain: str) -> Step:
    """The record of an action that the episode's time did not suffice for.  It has no result: none was given."""
    return Step(
        index=index,
        kind=action.kind,
        source=source,
        duration=seconds,
        request_digest=chain,
        action=action.recorded,
        timed_out=True,
        live_only=True,
        error=f"cut after {seconds:.6f} s: the time of the episode was spent",
    )


def from_record(step: Step) -> Action:
    """The action that a recorded step executed."""
    spec = json.loads(step.action or "{}")
    data = bytes.fromhex(spec.pop("bytes", ""))
    return Action(step.kind, spec, data)
