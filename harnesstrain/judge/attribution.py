"""Whether a flip is the change's doing: did changed code run at or before the step where the two sides part?

Evidence, not proof.  It is looked up by whoever has the traces, and given to the comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Outcome, Rollout, Step, StepKind
from harnesstrain.judge.divergence import Divergence, first_divergence

ATTRIBUTED, COLLATERAL = "attributed", "collateral"
CHANCE = "not deterministic: the model or a harness does not repeat itself"
"""Evidence of a flip that may be chance."""


class Attribution(Record):
    """What is known of one flip."""

    task: str
    seed: int
    verdict: str | None
    """attributed, collateral, or None when nothing was traced."""
    evidence: str = ""
    """In one sentence."""


def attribute(
    base_commit: str, base: Rollout, base_steps: Sequence[Step], cand: Rollout, cand_steps: Sequence[Step]
) -> Attribution:
    """The attribution of one flipped cell from both traces.

    `base_commit`: the baseline's version, against which the candidate must have been traced.
    """
    verdict, evidence = _judged(base_commit, cand, cand_steps, first_divergence(base, base_steps, cand, cand_steps))
    return Attribution(task=cand.task, seed=cand.seed, verdict=verdict, evidence=evidence)


def where(divergence: Divergence) -> str:
    """The place of a divergence for a sentence, as `ht show` of the rollout counts."""
    return f"step {divergence.step} ({divergence.kind})"


def _judged(
    base_commit: str, cand: Rollout, steps: Sequence[Step], divergence: Divergence | None
) -> tuple[str | None, str]:
    if divergence is None or (divergence.base is None and divergence.cand is None and _submitted(steps)):
        return COLLATERAL, "same requests and actions, another grade"
    own = [step for step in steps if step.kind not in (StepKind.NOTE, StepKind.STAGE)]
    if cand.outcome is Outcome.POLICY_CRASH and not own:
        return ATTRIBUTED, "the candidate crashed before its first request"
    if not divergence.harness_acted:
        return COLLATERAL, f"the harness did the same up to {where(divergence)}"
    if cand.traced != base_commit:
        return None, f"traced against {short(cand.traced)}, not the compared baseline" if cand.traced else ""
    ran = _ran(steps, divergence.cand)
    if ran:
        more = f" and {len(ran) - 1} more" if len(ran) > 1 else ""
        return ATTRIBUTED, f"{ran[0]}{more} ran before {where(divergence)}"
    return COLLATERAL, f"no changed line ran before {where(divergence)}"


def _submitted(steps: Sequence[Step]) -> bool:
    return any(step.kind is StepKind.SUBMIT for step in steps)


def _ran(steps: Sequence[Step], last: Step | None) -> list[str]:
    """The changed code that ran up to the request of `last`; None: up to the end."""
    found: list[str] = []
    for step in steps:
        if last is not None and step.index > last.index:
            return found
        found += step.ran
    return found if last is not None else [*found, *(name for step in steps for name in step.ran_after)]
