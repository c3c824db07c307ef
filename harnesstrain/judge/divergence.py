"""The first step where two rollouts of one task part.

Environment actions are a sequence.  Model calls may overlap, and overlapping ones arrive in any order: a call is the
same when the same request is among the next few of the other side.  What a harness notes does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout, Step, StepKind

OVERLAP = 8
"""Model calls of one harness that may be under way at once."""


class Divergence(Record):
    """Where two rollouts part.  Both sides are steps, or None where one side had already ended."""

    kind: str
    """request: the rendered request differs.  action: same exchanges so far, another action.  reply: same request,
    another reply (never under a deterministic endpoint).  observation: same action, another output.  outcome: one side
    submitted, ended or had its time spent, and the other went on; or all steps are equal and the outcomes differ."""
    step: int
    """Place in the candidate's trace; in the baseline's where only the candidate had ended; past the end where both
    did the same to the end."""
    shared: int
    """Exchanges that both sides share before it.  Notes are none."""
    base: Step | None
    cand: Step | None
    message: int | None = None
    """request: place of the first message that differs, from 0; None when the messages are equal (tools, sampling)."""

    @property
    def harness_acted(self) -> bool:
        """Whether the harness did something else, as opposed to the model, the environment or the clock."""
        if self.kind in ("reply", "observation"):
            return False
        return (
            self.base is None or self.cand is None or self.base.action is None or self.base.action != self.cand.action
        )


def first_divergence(
    base: Rollout, base_steps: Sequence[Step], cand: Rollout, cand_steps: Sequence[Step]
) -> Divergence | None:
    """The first difference, in the candidate's order; None when both did the same and ended the same."""
    left = [step for step in base_steps if step.kind is not StepKind.NOTE]
    right = [step for step in cand_steps if step.kind is not StepKind.NOTE]
    matches = _matched(left, right)
    never = set(range(len(left))) - set(matches)
    before: set[int] = set()
    for place, step in enumerate(right):
        match = matches[place]
        skipped = match is not None and any(index < match for index in never)
        if match is None or (skipped and not _replaced_soon(right, matches, place)):
            open_ = (index for index in range(len(left)) if index not in before and (match is None or index in never))
            other = next(open_, None)
            return _parted(place, left[other] if other is not None else None, step)
        before.add(match)
        kind = _answer_differs(left[match], step)
        if kind is not None:
            return Divergence(kind=kind, step=step.index, shared=place, base=left[match], cand=step)
    if never:
        return _parted(len(right), left[min(never)], None)
    if (base.outcome, base.reason) != (cand.outcome, cand.reason):
        end = cand_steps[-1].index + 1 if cand_steps else 0
        return Divergence(kind="outcome", step=end, shared=len(right), base=None, cand=None)
    return None


def _replaced_soon(right: Sequence[Step], matches: Sequence[int | None], place: int) -> bool:
    """Whether a call that may have overlapped with this one is new: it stands for the one that is missing."""
    for index in range(place, min(place + OVERLAP, len(right))):
        if right[index].kind is not StepKind.LLM:
            return False
        if matches[index] is None:
            return True
    return False


def _matched(left: Sequence[Step], right: Sequence[Step]) -> list[int | None]:
    """For each step of the right side, the step of the left one that asked or did the same."""
    calls = [index for index, step in enumerate(left) if step.kind is StepKind.LLM]
    deeds = [index for index, step in enumerate(left) if step.kind is not StepKind.LLM]
    found: list[int | None] = []
    for step in right:
        ahead = calls[:OVERLAP] if step.kind is StepKind.LLM else deeds[:1]
        match = next((index for index in ahead if _same(left[index], step)), None)
        if match is not None:
            (calls if step.kind is StepKind.LLM else deeds).remove(match)
        found.append(match)
    return found


def _same(one: Step, other: Step) -> bool:
    if one.kind is not other.kind:
        return False
    if one.kind is StepKind.LLM:
        return one.request_digest == other.request_digest and one.messages == other.messages
    return one.action == other.action


def _answer_differs(one: Step, other: Step) -> str | None:
    """What differs in the answers to one and the same call; None: nothing."""
    if one.kind is StepKind.LLM:
        return None if _reply(one) == _reply(other) else "reply"
    if one.scrubbed_digest == other.scrubbed_digest:
        return None
    return "outcome" if one.scrubbed_digest is None or other.scrubbed_digest is None else "observation"


def _parted(shared: int, base: Step | None, cand: Step | None) -> Divergence:
    at = cand or base
    kind = "action"
    message = None
    if base is None or cand is None or (base.kind is StepKind.SUBMIT) != (cand.kind is StepKind.SUBMIT):
        kind = "outcome"
    elif base.kind is cand.kind is StepKind.LLM:
        kind, message = "request", _first_difference(base.messages, cand.messages)
    step = at.index if at is not None else shared
    return Divergence(kind=kind, step=step, shared=shared, base=base, cand=cand, message=message)


def _first_difference(one: Sequence[str], other: Sequence[str]) -> int | None:
    shared = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return shared if shared < max(len(one), len(other)) else None


def _reply(step: Step) -> tuple[str | None, ...]:
    return (step.content, step.reasoning, step.tool_calls, step.finish_reason, step.error)
