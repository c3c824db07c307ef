"""The verifier, once, after the harness process is gone, in a place the harness could not write.

Where the sandbox can fork, grading happens in a fork of the sealed final state.  Else it happens in the task's own
sandbox, after every process that was left in it was ended.  Whatever was at /tests and /logs/verifier is discarded
first.  Nothing runs any more when the reward is read: what the graded code left behind cannot write it.
"""

from __future__ import annotations

from typing import NoReturn

from harnesstrain.core.errors import PolicyFailure, VerifierFailure
from harnesstrain.core.records.sandbox import Grade, RunResult
from harnesstrain.core.records.task import Task
from harnesstrain.core.rewards import parse_reward
from harnesstrain.sandbox.base import FileFault, Sandbox, Session

TESTS = "/tests"
LOGS = "/logs/verifier"
OUTPUT_TAIL = 4000
"""Characters of verifier output kept in the grade."""
CANNOT_START = (126, 127)
"""Exit codes of a shell that finds no program, or none that it may run."""


class Ungradable(PolicyFailure):
    """The submitted state itself prevents grading: its shell, its tools or its disk are broken.  It is not passed."""


def grade(sandbox: Sandbox, session: Session, task: Task) -> Grade:
    """Grade the state of `session`.  `reward` is finite; `duration` in seconds.

    Raises VerifierFailure when the verifier gave no grade, Ungradable when the state is to blame for that,
    SandboxFailure when the sandbox went away.
    """
    if sandbox.capabilities().forks:
        place = session.fork()
        try:
            return _grade_in(place, task)
        finally:
            place.close()
    session.end_processes()
    return _grade_in(session, task)


def _grade_in(session: Session, task: Task) -> Grade:
    verifier = task.verifier
    prepared = session.run(f"rm -rf {LOGS} {TESTS} && mkdir -p {LOGS}", cwd="/", timeout=60, user="root")
    if prepared.exit_code != 0:
        _blame_state(f"{LOGS} cannot be made", prepared)
    try:
        session.put(verifier.tests, TESTS)
    except FileFault as fault:
        raise Ungradable(f"the submitted state cannot be graded: {fault.message}") from fault
    result = session.run(
        f"bash {TESTS}/test.sh", env=verifier.env, timeout=verifier.timeout, user=verifier.user or "root"
    )
    session.end_processes()
    output = _text(result.stdout + result.stderr)
    if result.timed_out:
        msg = f"verifier of {task.name} ran past {verifier.timeout:g} s"
        raise VerifierFailure(msg, hint="raise [verifier] timeout_sec in task.toml", output=output)
    try:
        graded = parse_reward(_read(session, f"{LOGS}/reward.txt"), _read(session, f"{LOGS}/reward.json"))
    except VerifierFailure as failure:
        if result.exit_code in CANNOT_START and session.run("bash -c :", cwd="/", timeout=60).exit_code != 0:
            _blame_state("bash does not run in it any more", result)
        msg = f"{failure.message} (test.sh exited {result.exit_code})"
        raise VerifierFailure(msg, hint=failure.hint, output=output) from failure
    return graded.model_copy(update={"output": output, "duration": result.duration})


def _blame_state(why: str, result: RunResult) -> NoReturn:
    said = _text(result.stderr).strip().splitlines()
    raise Ungradable(f"the submitted state cannot be graded: {why}" + (f": {said[-1]}" if said else ""))


def _read(session: Session, path: str) -> bytes | None:
    try:
        return session.read(path)
    except FileFault as fault:
        if fault.errno == "ENOENT":
            return None
        raise VerifierFailure(f"the verifier's reward cannot be read: {fault.message}") from fault


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")[-OUTPUT_TAIL:]
