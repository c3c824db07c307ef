"""A recorded action chain again, in a fresh environment, caches off: does every output come back?  And the grade?"""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.digests import digest_bytes
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certified, Regraded
from harnesstrain.core.records.rollout import Step, StepKind
from harnesstrain.core.records.sandbox import Limits, RunResult
from harnesstrain.core.records.task import Task
from harnesstrain.rollout.action import act, patience
from harnesstrain.rollout.evidence import Difference, difference
from harnesstrain.rollout.opening import opened
from harnesstrain.rollout.recorder import ACTIONS
from harnesstrain.rollout.regrading import Regrader, Regrading
from harnesstrain.rollout.staging import again
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.sandbox.scrub import scrubbed_digest


class ChainCheck(Record):
    """What re-executing a chain showed.  For a fork: the step, the command, both outputs."""

    result: Certified
    executed: int = 0
    """Actions re-executed."""
    step: int | None = None
    command: str | None = None
    difference: Difference | None = None
    """A fork: both sides."""
    state: str | None = None
    """Digest of the files that the whole chain left, where the sandbox can tell."""
    other_files: bool = False
    """Every output came back, but the files are not those of the earlier execution, byte for byte."""
    regrading: Regrading | None = None
    """What grading again showed; None: the verifier was not to be run, or a command forked before."""


def reexecute(
    sandbox: Sandbox,
    task: Task,
    steps: Sequence[Step],
    limits: Limits | None = None,
    state: str | None = None,
    regrader: Regrader | None = None,
) -> ChainCheck:
    """Re-execute the actions among `steps` in order, comparing each with its record; then grade again.

    Stops at the first output that differs after scrubbing.  A step that timed out is compared by having timed out; one
    that the episode's time did not suffice for has no result, and is left out.
    `state`: digest of the files that an earlier execution of the chain left.  Other files make the chain `equivalent`
    at best: some programs keep times in theirs.  So does another reward with the same outcome; another outcome is a
    fork, at no step.  `regrader`: None runs no verifier.
    Raises SandboxFailure: an infrastructure error neither certifies nor excludes.
    """
    driven = [StepKind.STAGE]
    if not sandbox.capabilities().forks:
        driven.append(StepKind.VERIFY)  # a fork leaves no trace
    chain = [step for step in steps if step.kind in (*ACTIONS, *driven) and step.exit_code is not None]
    if not chain and (regrader is None or not regrader.due):
        return ChainCheck(result=Certified.NO_CHAIN)
    exact = True
    session = opened(sandbox, task.environment, limits)
    try:
        for done, step in enumerate(chain, 1):
            action = again(sandbox, task, step)
            seen = act(session, action, remaining=patience(step)).result
            if step.timed_out and seen.timed_out:
                continue
            if not _alike(step, seen, action.command):
                graded = Regrading(result=Regraded.OTHER, reason="a step of the task was graded otherwise")
                return ChainCheck(
                    result=Certified.FORKED,
                    executed=done,
                    step=step.index,
                    command=action.command,
                    difference=difference(recorded_result(step), seen, action.command),
                    regrading=graded if step.kind is StepKind.VERIFY else None,
                )
            exact = exact and digest_bytes(seen.stdout + b"\0" + seen.stderr) == step.raw_digest
        left = session.state()
        regrading = regrader.regrade(session, chain) if regrader is not None else None
    finally:
        session.close()
    other = state is not None and left is not None and state != left
    graded_as = regrading.result if regrading is not None else None
    if graded_as is Regraded.OTHER:
        result = Certified.FORKED
    elif not chain:
        result = Certified.NO_CHAIN
    else:
        same = exact and not other and graded_as is not Regraded.OUTCOME
        result = Certified.EXACT if same else Certified.EQUIVALENT
    return ChainCheck(result=result, executed=len(chain), state=left, other_files=other, regrading=regrading)


def recorded_result(step: Step) -> RunResult:
    """The result that a step recorded."""
    return RunResult(
        exit_code=step.exit_code or 0,
        stdout=step.stdout or b"",
        stderr=step.stderr or b"",
        timed_out=step.timed_out,
        truncated=step.truncated,
        duration=step.duration,
    )


def _alike(step: Step, result: RunResult, command: str) -> bool:
    """Whether a result is the recorded one.  A record of other scrub rules is scrubbed again by those in force."""
    if (step.exit_code, step.timed_out) != (result.exit_code, result.timed_out):
        return False
    seen = scrubbed_digest(result, command)
    return seen == step.scrubbed_digest or seen == scrubbed_digest(recorded_result(step), command)
