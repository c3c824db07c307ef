"""The first step where two rollouts of one task part."""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout, Step, StepKind


class Divergence(Record):
    """Where two rollouts part.  Both sides are steps, or None where one side had already ended."""

    kind: str
    """request: the rendered request differs.  action: same exchanges so far, another action.  reply: same request,
    another reply (never under a deterministic endpoint).  observation: same action, another output.  outcome: one side
    went on, or all steps are equal and the outcomes differ."""
    step: int
    """Exchanges that both sides share."""
    base: Step | None
    cand: Step | None


def first_divergence(
    base: Rollout, base_steps: Sequence[Step], cand: Rollout, cand_steps: Sequence[Step]
) -> Divergence | None:
    """The first difference, or None when both did the same and ended the same.  Notes do not count."""
    left = [step for step in base_steps if step.kind is not StepKind.NOTE]
    right = [step for step in cand_steps if step.kind is not StepKind.NOTE]
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        kind = _difference(one, other)
        if kind is not None:
            return Divergence(kind=kind, step=index, base=one, cand=other)
    shared = min(len(left), len(right))
    if len(left) != len(right) or (base.outcome, base.reason) != (cand.outcome, cand.reason):
        return Divergence(
            kind="outcome",
            step=shared,
            base=left[shared] if len(left) > shared else None,
            cand=right[shared] if len(right) > shared else None,
        )
    return None


def _difference(one: Step, other: Step) -> str | None:
    if one.kind is not other.kind:
        return "action"
    if one.kind is StepKind.LLM:
        if one.request_digest != other.request_digest or one.messages != other.messages:
            return "request"
        return None if _reply(one) == _reply(other) else "reply"
    if one.action != other.action:
        return "action"
    if one.scrubbed_digest != other.scrubbed_digest:
        return "observation"
    return None


def _reply(step: Step) -> tuple[str | None, ...]:
    return (step.content, step.reasoning, step.tool_calls, step.finish_reason, step.error)
