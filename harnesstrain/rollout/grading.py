"""The verifier, once, after the harness process is gone, in a place the harness could not write.

Where the sandbox can fork, grading happens in a fork of the sealed final state.  Else it happens in the task's own
sandbox, after every process that was left in it was ended.  Whatever was at /tests and /logs/verifier is discarded
first.  Nothing runs any more when the reward is read: what the graded code left behind cannot write it.

A verifier may have an environment of its own: then nothing of the final state reaches it but the declared artifacts.
Where the answer is a change of a checkout, nothing reaches it but a patch (changes.py).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from harnesstrain.core.errors import PolicyFailure, VerifierFailure
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import Task, Verifier
from harnesstrain.core.rewards import parse_reward
from harnesstrain.rollout.carrying import carry
from harnesstrain.rollout.changes import Shared, Unusable, grade_change
from harnesstrain.rollout.opening import opened
from harnesstrain.sandbox.base import FileFault, Sandbox, Session

TESTS = "/tests"
LOGS = "/logs/verifier"
CONVENTION = "/logs/artifacts"
"""An artifact that need not be there."""
OUTPUT_TAIL = 4000
"""Characters of verifier output kept in the grade."""


class Ungradable(PolicyFailure):
    """The submitted state itself prevents grading: its shell, its tools or its disk are broken.  It is not passed."""


def grade(sandbox: Sandbox, session: Session, task: Task, shared: Shared | None = None) -> Grade:
    """Grade the state of `session`.  `reward` is finite; `duration` in seconds.

    `shared`: what the gradings of a run have in common, where the answer is a change.

    Raises VerifierFailure when the verifier gave no grade, Ungradable when the state is to blame for that,
    SandboxFailure when the sandbox went away.
    """
    if task.verifier.expected is not None:
        try:
            return grade_change(sandbox, session, task, shared)
        except Unusable as why:
            raise Ungradable(f"the submitted state cannot be graded: {why}") from why
    if sandbox.capabilities().forks:
        place = session.fork()
        try:
            return _grade_final(sandbox, place, task)
        finally:
            place.close()
    return _grade_final(sandbox, session, task)


def _grade_final(sandbox: Sandbox, session: Session, task: Task) -> Grade:
    """Grade in `session`, or in the verifier's own environment what is carried there."""
    for one in task.verifier.collect:
        session.run(one.command, timeout=one.timeout, user=one.user)
    session.end_processes()
    environment = task.verifier.environment
    if environment is None:
        return _grade_in(session, task)
    place = opened(sandbox, environment)
    try:
        try:
            missing = carry(task.verifier.artifacts, session, place)
        except FileFault as fault:
            raise Ungradable(f"the submitted state cannot be graded: {fault.message}") from fault
        graded = _grade_in(place, task)
    finally:
        place.close()
    told = "".join(f"artifact {path} is missing\n" for path in missing if path != CONVENTION)
    return graded.model_copy(update={"output": told + graded.output})


def _grade_in(session: Session, task: Task) -> Grade:
    verifier = task.verifier
    discarded = LOGS if verifier.in_image else f"{LOGS} {TESTS}"
    prepared = session.run(f"rm -rf {discarded} && mkdir -p {LOGS}", cwd="/", timeout=60, user="root")
    if prepared.exit_code != 0:
        said = _text(prepared.stderr).strip().splitlines() or [f"exit {prepared.exit_code}"]
        raise Ungradable(f"the submitted state cannot be graded: {LOGS} cannot be made: {said[-1]}")
    try:
        if not verifier.in_image:
            _upload(session, verifier)
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
        graded = _graded(session, verifier)
    except VerifierFailure as failure:
        msg = f"{failure.message} (test.sh exited {result.exit_code})"
        raise VerifierFailure(msg, hint=failure.hint, output=output) from failure
    return graded.model_copy(update={"output": output, "duration": result.duration})


def _upload(session: Session, verifier: Verifier) -> None:
    if verifier.base is None:
        session.put(verifier.tests, TESTS)
        return
    with tempfile.TemporaryDirectory(prefix="ht-tests-") as folder:
        merged = Path(folder, "tests")
        for layer in (verifier.base, verifier.tests):
            shutil.copytree(layer, merged, symlinks=True, dirs_exist_ok=True)
        session.put(merged, TESTS)


def _graded(session: Session, verifier: Verifier) -> Grade:
    """What the reward files say; what the tests printed, where the task names a parser of it."""
    if not verifier.parser:
        return parse_reward(_read(session, f"{LOGS}/reward.txt"), _read(session, f"{LOGS}/reward.json"))
    from harnesstrain.taskset.terminalbench import PRINTED, graded

    return graded(verifier.parser, _read(session, PRINTED) or b"")


def _read(session: Session, path: str) -> bytes | None:
    try:
        return session.read(path)
    except FileFault as fault:
        if fault.errno == "ENOENT":
            return None
        raise VerifierFailure(f"the verifier's reward cannot be read: {fault.message}") from fault


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")[-OUTPUT_TAIL:]
