"""The verifier, once, after the harness process is gone, in a place the harness could not write.

Where the sandbox can fork, grading happens in a fork of the sealed final state.  Else it happens in the task's own
sandbox: whatever was at /tests and /logs/verifier is discarded first.
"""

from __future__ import annotations

from harnesstrain.core.errors import SandboxFailure, VerifierFailure
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import Task
from harnesstrain.core.rewards import parse_reward
from harnesstrain.sandbox.base import FileFault, Sandbox, Session

TESTS = "/tests"
LOGS = "/logs/verifier"
OUTPUT_TAIL = 4000
"""Characters of verifier output kept in the grade."""


def grade(sandbox: Sandbox, session: Session, task: Task) -> Grade:
    """Grade the state of `session`.  `reward` is finite; `duration` in seconds.

    Raises VerifierFailure when the verifier gave no grade, SandboxFailure when the sandbox went away.
    """
    if sandbox.capabilities().forks:
        place = session.fork()
        try:
            return _grade_in(place, task)
        finally:
            place.close()
    return _grade_in(session, task)


def _grade_in(session: Session, task: Task) -> Grade:
    verifier = task.verifier
    prepared = session.run(f"rm -rf {LOGS} {TESTS} && mkdir -p {LOGS}", cwd="/", timeout=60, user="root")
    if prepared.exit_code != 0:
        msg = f"cannot prepare {LOGS}: {_text(prepared.stderr)}"
        raise SandboxFailure(msg)
    session.put(verifier.tests, TESTS)
    result = session.run(
        f"bash {TESTS}/test.sh", env=verifier.env, timeout=verifier.timeout, user=verifier.user or "root"
    )
    output = _text(result.stdout + result.stderr)
    if result.timed_out:
        msg = f"verifier of {task.name} ran past {verifier.timeout:g} s"
        raise VerifierFailure(msg, hint="raise [verifier] timeout_sec in task.toml", output=output)
    try:
        graded = parse_reward(_read(session, f"{LOGS}/reward.txt"), _read(session, f"{LOGS}/reward.json"))
    except VerifierFailure as failure:
        msg = f"{failure.message} (test.sh exited {result.exit_code})"
        raise VerifierFailure(msg, hint=failure.hint, output=output) from failure
    return graded.model_copy(update={"output": output, "duration": result.duration})


def _read(session: Session, path: str) -> bytes | None:
    try:
        return session.read(path)
    except FileFault:
        return None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")[-OUTPUT_TAIL:]
