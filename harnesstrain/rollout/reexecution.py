"""A recorded action chain again, in a fresh environment, caches off: does every output come back?"""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.digests import digest_bytes
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.rollout import Step
from harnesstrain.core.records.sandbox import Limits, RunResult
from harnesstrain.core.records.task import Task
from harnesstrain.rollout.action import act, from_record
from harnesstrain.rollout.recorder import ACTIONS
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.sandbox.scrub import scrub, scrubbed_digest

SHOWN = 2000
"""Characters of each side kept as evidence."""


class ChainCheck(Record):
    """What re-executing a chain showed.  For a fork: the step, the command, both outputs."""

    result: Certified
    executed: int = 0
    """Actions re-executed."""
    step: int | None = None
    command: str | None = None
    recorded: str | None = None
    observed: str | None = None


def reexecute(sandbox: Sandbox, task: Task, steps: Sequence[Step], limits: Limits | None = None) -> ChainCheck:
    """Re-execute the actions among `steps` in order, comparing each with its record.

    Stops at the first output that differs after scrubbing.  A step that timed out is compared by having timed out.
    Raises SandboxFailure: an infrastructure error neither certifies nor excludes.
    """
    chain = [step for step in steps if step.kind in ACTIONS]
    if not chain:
        return ChainCheck(result=Certified.NO_CHAIN)
    exact = True
    session = sandbox.open(task.environment, limits=limits)
    try:
        for done, step in enumerate(chain, 1):
            action = from_record(step)
            result = act(session, action, remaining=_patience(step)).result
            if step.timed_out and result.timed_out:
                continue
            if not _same_status(step, result) or scrubbed_digest(result, action.command) != step.scrubbed_digest:
                return ChainCheck(
                    result=Certified.FORKED,
                    executed=done,
                    step=step.index,
                    command=action.command,
                    recorded=_shown(step.exit_code, step.stdout or b"", step.stderr or b"", action.command),
                    observed=_shown(result.exit_code, result.stdout, result.stderr, action.command),
                )
            exact = exact and digest_bytes(result.stdout + b"\0" + result.stderr) == step.raw_digest
    finally:
        session.close()
    return ChainCheck(result=Certified.EXACT if exact else Certified.EQUIVALENT, executed=len(chain))


def _patience(step: Step) -> float:
    """Seconds a re-execution may take: what it took, generously; a slow machine is not a fork."""
    return step.duration + 0.5 if step.timed_out else max(60.0, step.duration * 10)


def _same_status(step: Step, result: RunResult) -> bool:
    return (step.exit_code, step.timed_out) == (result.exit_code, result.timed_out)


def _shown(code: int | None, stdout: bytes, stderr: bytes, command: str) -> str:
    text = scrub(stdout, command) + b"\n" + scrub(stderr, command)
    return f"exit {code}\n" + text.decode("utf-8", "replace").strip()[:SHOWN]
