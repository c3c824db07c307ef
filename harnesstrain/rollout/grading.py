"""The verifier, once, after the harness process is gone, in a place the harness could not write.

Where the sandbox can fork, grading happens in a fork of the sealed final state.  Else it happens in the task's own
sandbox, after every process that was left in it was ended.  Whatever was at /tests and /logs/verifier is discarded
first.  Nothing runs any more when the reward is read: what the graded code left behind cannot write it.

What the state changed is looked at from outside before anything runs in it (plants.py): it is named, or refused.  What
the verifier printed decides whether a reward that does not pass is the submission's, or infrastructure's (infra.py).

A verifier may have an environment of its own: then nothing of the final state reaches it but the declared artifacts.
Where the answer is a change of a checkout, nothing reaches it but a patch (changes.py).
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import PolicyFailure, VerifierFailure
from harnesstrain.core.records.sandbox import Grade, Limits, RunResult
from harnesstrain.core.records.task import Task, Verifier
from harnesstrain.core.rewards import parse_reward
from harnesstrain.core.scratch import temporary
from harnesstrain.rollout import infra, plants
from harnesstrain.rollout.carrying import carry
from harnesstrain.rollout.changes import Shared, Unusable, grade_change
from harnesstrain.rollout.frames import Told, read, reported
from harnesstrain.rollout.masking import masked_grade, masking
from harnesstrain.rollout.opening import opened
from harnesstrain.sandbox.base import FileFault, Sandbox, Session

TESTS = "/tests"
LOGS = "/logs/verifier"
CONVENTION = "/logs/artifacts"
"""An artifact that need not be there."""
GRADED = "/logs/.graded"
"""Where the verifier's directory goes the moment it ended, by a new name: what still runs then writes elsewhere."""
RUN_TESTS = f"""exec 2>/dev/null
shell=bash; [ -x /bin/bash ] && shell=/bin/bash
$shell {TESTS}/test.sh 2>&1; code=$?
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH mv {LOGS} {GRADED}/%s
exit $code"""
"""By its full path where it has one, and both outputs as one: what was printed when tells what it means."""
CUT_SHORT = "cut_short (a test run began and never reported)"
ENDS = 131_072
"""Bytes of each end of the tests' own output that are looked at, where it lies in a file."""
OUTPUT_TAIL = 4000
"""Characters of verifier output kept in the grade."""


def rules() -> str:
    """Version of the rules: what was graded under other ones is graded again."""
    return digest([infra.version(), plants.version()])


def grade_key(verifier: Verifier, state: str) -> str:
    """Under which a grade is kept.  `state`: step key of the last action."""
    return digest({"verifier": verifier.digest, "rules": rules(), "state": state})


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
    forks = sandbox.capabilities().forks
    found = plants.find(session.changed() or ()) if task.verifier.environment is None else ()
    for one in found:
        if one.refuses(forks=forks, workdir=session.workdir):
            raise Ungradable(f"the submitted state cannot be graded: it changed {one}")
    limits = shared.limits if shared else None
    with masking(task.verifier):
        if not forks:
            return masked_grade(_grade_final(sandbox, session, task, found, limits), task.verifier)
        place = session.fork()
        try:
            return masked_grade(_grade_final(sandbox, place, task, found, limits), task.verifier)
        finally:
            place.close()


def _grade_final(
    sandbox: Sandbox, session: Session, task: Task, found: tuple[plants.Found, ...], limits: Limits | None
) -> Grade:
    """Grade in `session`, or in the verifier's own environment (within `limits`) what is carried there."""
    for one in task.verifier.collect:
        session.run(one.command, timeout=one.timeout, user=one.user)
    session.end_processes()
    environment = task.verifier.environment
    if environment is None:
        return _grade_in(session, task, found)
    place = opened(sandbox, environment, limits)
    try:
        try:
            missing = carry(task.verifier.artifacts, session, place)
        except FileFault as fault:
            raise Ungradable(f"the submitted state cannot be graded: {fault.message}") from fault
        graded = _grade_in(place, task, ())
    finally:
        place.close()
    told = "".join(f"artifact {path} is missing\n" for path in missing if path != CONVENTION)
    return graded.model_copy(update={"output": told + graded.output})


def _grade_in(session: Session, task: Task, found: tuple[plants.Found, ...]) -> Grade:
    """`found`: what the state has planted."""
    verifier = task.verifier
    _prepare(session, verifier)
    mark = secrets.token_hex(8)
    command, user = RUN_TESTS % mark, verifier.user or "root"
    result = session.run(command, env=verifier.env, timeout=verifier.timeout, user=user)
    session.end_processes()
    place = f"{GRADED}/{mark}" if user in ("root", "0") else LOGS
    output = result.stdout.decode("utf-8", "replace")
    printed = _printed(session, place) if verifier.parser and not result.timed_out else None
    told = reported(read(output if printed is None else _ends(printed)), _report(session, place))
    failure: VerifierFailure | None = None
    try:
        graded = None if result.timed_out else _graded(session, verifier, place, printed)
    except VerifierFailure as caught:
        graded, failure = None, caught
    if graded is None:
        if failure is not None and told.failed and result.left:
            raise _forged(result)
        if failure is not None and printed is not None and told.unfinished:
            raise Ungradable(f"the submitted state cannot be graded: {CUT_SHORT}")
        sign = infra.sign_without_reward(told, result.exit_code, failure, verifier.timeout)
        hint = failure.hint if failure else "raise [verifier] timeout_sec in task.toml"
    elif task.passes(graded):
        return _trusted(graded, told, result, output, found)
    else:
        broken = infra.sign_of_failing(told)
        if broken is None:
            notes = (*_notes(found, result), *((CUT_SHORT,) if told.unfinished else ()))
            return _told(graded, output, result, notes)
        sign, hint = broken, None
    noted = f"the submitted state changed {', '.join(map(str, found))}" if found else ""
    raise infra.failure_of(sign, told, result.exit_code, output[-OUTPUT_TAIL:], hint, noted) from failure


def _trusted(graded: Grade, told: Told, result: RunResult, output: str, found: tuple[plants.Found, ...]) -> Grade:
    """A passing grade, unless what the tests printed denies it.  Raises Ungradable."""
    if told.unfinished and not result.truncated:
        raise Ungradable(f"the submitted state cannot be graded: it passes although {CUT_SHORT}")
    if told.failed and result.left:
        raise _forged(result)
    notes = ("contradiction (it passes although tests failed)",) if told.failed else ()
    return _told(graded, output, result, (*_notes(found, result), *notes))


def _forged(result: RunResult) -> Ungradable:
    msg = f"tests failed, and {result.left} processes were left that could write the reward"
    return Ungradable(f"the submitted state cannot be graded: forged_reward ({msg})")


def _notes(found: tuple[plants.Found, ...], result: RunResult) -> tuple[str, ...]:
    left = (f"left_running ({result.left} processes of the verifier's)",) if result.left else ()
    return (*map(str, found), *left)


def _told(graded: Grade, output: str, result: RunResult, notes: tuple[str, ...]) -> Grade:
    return graded.model_copy(
        update={"output": output[-OUTPUT_TAIL:], "duration": result.duration, "notes": notes},
    )


def _prepare(session: Session, verifier: Verifier) -> None:
    """Empty directories, made by the sandbox itself: no program of the state's takes part.  Raises Ungradable."""
    try:
        with temporary("logs") as empty:
            for place in (LOGS, GRADED):
                session.put(Path(empty), place)
        if not verifier.in_image:
            _upload(session, verifier)
    except FileFault as fault:
        raise Ungradable(f"the submitted state cannot be graded: {fault.message}") from fault
    if verifier.user not in (None, "root", "0"):
        session.run(f"chmod 0777 {LOGS}", cwd="/", timeout=60, user="root")


def _upload(session: Session, verifier: Verifier) -> None:
    if verifier.base is None:
        session.put(verifier.tests, TESTS)
        return
    with temporary("tests") as folder:
        merged = Path(folder, "tests")
        for layer in (verifier.base, verifier.tests):
            shutil.copytree(layer, merged, symlinks=True, dirs_exist_ok=True)
        session.put(merged, TESTS)


def _graded(session: Session, verifier: Verifier, place: str, printed: bytes | None) -> Grade:
    """What the reward files say; what the tests printed, where the task names a parser of it."""
    if not verifier.parser:
        return parse_reward(_read(session, f"{place}/reward.txt"), _read(session, f"{place}/reward.json"))
    from harnesstrain.taskset.terminalbench import graded

    return graded(verifier.parser, printed or b"")


def _printed(session: Session, place: str) -> bytes:
    from harnesstrain.taskset.terminalbench import PRINTED

    return _read(session, f"{place}/{Path(PRINTED).name}") or b""


def _ends(printed: bytes) -> str:
    """Head and tail, as much as a command's output is kept."""
    kept = printed if len(printed) <= 2 * ENDS else printed[:ENDS] + b"\n" + printed[-ENDS:]
    return kept.decode("utf-8", "replace")


def _report(session: Session, place: str) -> bytes | None:
    """The report that a test runner wrote beside the reward, if it did and it can be read."""
    try:
        return session.read(f"{place}/ctrf.json")
    except FileFault:
        return None


def _read(session: Session, path: str) -> bytes | None:
    try:
        return session.read(path)
    except FileFault as fault:
        if fault.errno == "ENOENT":
            return None
        raise VerifierFailure(f"the verifier's reward cannot be read: {fault.message}") from fault
