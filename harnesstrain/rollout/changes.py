"""Tasks whose answer is a change of a checkout: it is taken out as a patch and evaluated in a fresh environment.

Nothing that the harness left but the bytes of the patch reaches the place where its grade is made: no process, no file
outside the checkout, no hook, no ignored file.  What the change is a change to is asked of the fresh environment, too:
the checkout's HEAD before anybody worked in it.  Equal patches are evaluated once; an empty one is not evaluated.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.records.cache import GradeEntry
from harnesstrain.core.records.sandbox import Grade, Limits, RunResult
from harnesstrain.core.records.task import Environment, Task
from harnesstrain.core.scratch import temporary
from harnesstrain.sandbox.base import FileFault, Sandbox, Session
from harnesstrain.taskset.swebench import Facts, Patch, Row, Verdict, grade_log, patch_of, spec_of
from harnesstrain.taskset.swebench.infra import KILLED
from harnesstrain.taskset.swebench.patches import START_REVISION, apply_script, capture_script
from harnesstrain.taskset.swebench.rows import read_row
from harnesstrain.taskset.swebench.script import SCRIPT
from harnesstrain.taskset.swebench.spec import WORKDIR
from harnesstrain.taskset.swebench.verdict import APPLIED, Status

TESTS, LOGS = "/tests", "/logs/verifier"
CHANGE = f"{LOGS}/change.patch"
LOG = f"{LOGS}/eval.log"
MOST = 64 << 20
"""Bytes of a patch, and of a log, at most."""
ASIDE = 600.0
"""Seconds that capturing may take, and applying."""
TAIL = 4000
"""Characters of a log that a grade keeps."""
NAMED = 5
"""Tests that a grade names."""
EMPTY = "nothing was changed"
COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Where the kernel counts what it killed for want of memory."""
_KILLS = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)

Recall = Callable[[str, Callable[[], GradeEntry]], GradeEntry]
"""The grade of a key (64 hex): from where grades are kept, else made."""


class Unusable(Exception):
    """The submitted state gives no patch; says why."""


@dataclass
class Starts:
    """What the checkouts of environments start from, by the environment's digest.  Thread-safe."""

    known: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, environment: Environment, ask: Callable[[], str]) -> str:
        """The revision; asked once for an environment that has a digest."""
        with self.lock:
            found = self.known.get(environment.digest) if environment.digest else None
        if found is None:
            found = ask()
            with self.lock:
                self.known[environment.digest] = found
        return found


def _make(key: str, make: Callable[[], GradeEntry]) -> GradeEntry:
    return make()


@dataclass(frozen=True)
class Shared:
    """What gradings of changes have in common."""

    limits: Limits | None = None
    """Of fresh environments."""
    starts: Starts = field(default_factory=Starts)
    recall: Recall = _make


def grade_change(sandbox: Sandbox, session: Session, task: Task, shared: Shared | None = None) -> Grade:
    """Grade what was changed in the checkout of `session`.  The reward is 1 or 0.

    Raises Unusable (the state gives no patch), VerifierFailure (no grade), SandboxFailure.
    """
    shared = shared or Shared()
    expected = task.verifier.expected
    assert expected is not None
    row = read_row(expected)
    with _Fresh(sandbox, task.environment, shared.limits) as fresh:
        start = shared.starts.of(task.environment, lambda: _start(fresh.session()))
        patch = _captured(session, start)
        if patch.empty:
            return Grade(reward=0.0, output=EMPTY)
        key = digest({"change": spec_of(row).verify_key(patch), "environment": task.environment.digest})
        entry = shared.recall(key, lambda: GradeEntry(grade=_evaluated(fresh.session(), task, row, patch)))
    assert entry.grade is not None
    return entry.grade


class _Fresh:
    """A fresh environment, opened when it is first needed."""

    def __init__(self, sandbox: Sandbox, environment: Environment, limits: Limits | None) -> None:
        self._sandbox, self._environment, self._limits = sandbox, environment, limits
        self._session: Session | None = None

    def __enter__(self) -> _Fresh:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._session is not None:
            self._session.close()

    def session(self) -> Session:
        """The environment."""
        if self._session is None:
            self._session = self._sandbox.open(self._environment, limits=self._limits)
        return self._session


def _start(fresh: Session) -> str:
    command = f"git config --global --add safe.directory {WORKDIR}; cd {WORKDIR} && {' '.join(START_REVISION)}"
    asked = fresh.run(command, cwd="/", timeout=60, user="root")
    if asked.exit_code != 0:
        msg = f"{WORKDIR} of the task's image is no checkout: {_last(asked)}"
        raise VerifierFailure(msg, hint=f"an image has the repository at {WORKDIR}, and git", output=_said(asked))
    return asked.stdout.decode("ascii", "replace").strip()


def _captured(session: Session, start: str) -> Patch:
    session.end_processes()
    script = f"rm -rf {LOGS} && mkdir -p {LOGS} || exit 1\n{capture_script(WORKDIR, start, CHANGE)}"
    result = session.run(script, cwd="/", timeout=ASIDE, user="root")
    session.end_processes()
    if result.exit_code != 0:
        raise Unusable(f"what was changed in {WORKDIR} cannot be told: {_last(result)}")
    try:
        return patch_of(_fetched(session, CHANGE))
    except FileFault as fault:
        raise Unusable(f"what was changed in {WORKDIR} cannot be told: {fault.message}") from fault


def _evaluated(fresh: Session, task: Task, row: Row, patch: Patch) -> Grade:
    """Apply and evaluate a patch; the grade of its log."""
    _uploaded(fresh, task, patch)
    done = fresh.run(apply_script(WORKDIR, CHANGE), cwd="/", timeout=ASIDE, user="root")
    log, facts = _said(done), Facts(timed_out=done.timed_out)
    if done.exit_code == 0 and APPLIED in log:
        verifier = task.verifier
        done = fresh.run(
            f"bash {TESTS}/{SCRIPT} >{LOG} 2>&1", cwd="/", env=verifier.env, timeout=verifier.timeout, user="root"
        )
        fresh.end_processes()
        cut_short = done.exit_code in KILLED and not done.timed_out
        facts = Facts(timed_out=done.timed_out, cut_short=cut_short, out_of_memory=_out_of_memory(fresh))
        try:
            log = _fetched(fresh, LOG).decode("utf-8", "replace")
        except FileFault as fault:
            if fault.errno != "EFBIG":
                raise VerifierFailure(f"the tests' log cannot be read: {fault.message}") from fault
            return Grade(reward=0.0, output=f"the tests printed more than {MOST} bytes", duration=done.duration)
    verdict = grade_log(row, log, facts)
    if verdict.infra is not None:
        msg = f"{row.instance_id} has no grade: {verdict.infra.reason}: {verdict.infra.evidence}"
        hint = "correct the machine, then measure again"
        told = {"rule": verdict.infra.reason, "evidence": verdict.infra.evidence, "ended": verdict.exit_code}
        raise VerifierFailure(msg, hint=hint, output=log[-TAIL:], **told)
    reward = 1.0 if verdict.status is Status.RESOLVED else 0.0
    return Grade(reward=reward, output=f"{_summary(verdict)}\n{log[-TAIL:]}", duration=done.duration)


def _out_of_memory(fresh: Session) -> bool:
    """Whether the kernel killed in this environment for want of memory, where its control group can be read."""
    for path in COUNTERS:
        try:
            found = _KILLS.search(fresh.read(path))
        except FileFault:
            continue
        if found is not None:
            return int(found[1]) > 0
    return False


def _uploaded(fresh: Session, task: Task, patch: Patch) -> None:
    try:
        fresh.put(task.verifier.tests, TESTS)
        with temporary("change") as folder:
            Path(folder, Path(CHANGE).name).write_bytes(patch.data)
            fresh.put(Path(folder), LOGS)
    except FileFault as fault:
        raise VerifierFailure(f"the verifier's files cannot be laid down: {fault.message}") from fault


def _fetched(session: Session, path: str) -> bytes:
    """A file, of at most MOST bytes.  Raises FileFault."""
    with temporary("change") as folder:
        target = Path(folder, "file")
        session.get(path, target, limit=MOST)
        if not target.is_file() or target.is_symlink():
            raise FileFault("EINVAL", path, "not a regular file")
        return target.read_bytes()


def _summary(verdict: Verdict) -> str:
    if verdict.tests_status is None:
        return f"not resolved: {verdict.reason}"
    if verdict.resolved:
        return "resolved"
    lines = [f"not resolved ({verdict.resolution})"]
    for name, parted in verdict.tests_status.items():
        if parted.failure:
            more = f" and {len(parted.failure) - NAMED} more" if len(parted.failure) > NAMED else ""
            lines.append(f"{name}: {len(parted.failure)} failed: {', '.join(parted.failure[:NAMED])}{more}")
    return "\n".join(lines)


def _said(result: RunResult) -> str:
    return (result.stdout + result.stderr).decode("utf-8", "replace")


def _last(result: RunResult) -> str:
    how = f"exit {result.exit_code}" if not result.timed_out else "it took too long"
    return (_said(result).strip().splitlines() or [how])[-1][:300]
