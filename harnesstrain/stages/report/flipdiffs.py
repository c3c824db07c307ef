"""From two runs to where each flipped cell parts.  Reads the traces of flipped cells and no others."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Outcome, Rollout, Step, StepKind, Trace, latest_attempts
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.verdict import Flip, Verdict
from harnesstrain.judge import Comparison
from harnesstrain.judge.divergence import Divergence, first_divergence
from harnesstrain.stages.report.flips import FlipDiff, FlipDiffs, FlipSide, Parted
from harnesstrain.stages.report.linediff import SideBySide, side_by_side
from harnesstrain.stages.report.plain import one_line, plain
from harnesstrain.stages.report.source import Records
from harnesstrain.stages.report.steplines import (
    action_text,
    command_text,
    messages_text,
    output_text,
    reply_text,
    step_line,
    tail,
    tools_text,
)

SHOWN = 20
"""Flips shown with their steps; the rest is named."""
PREFIX = 12
"""Shared steps shown, the last ones."""
FOLLOWED = 6
"""Steps shown after the two sides part: three turns of a reply and a command."""
TAIL_LINES, TAIL_CHARACTERS = 6, 600
"""Of the last output."""
DETAIL = 400
"""Characters of an outcome's evidence."""

_DID = {
    StepKind.LLM: "asked the model",
    StepKind.RUN: "ran a command",
    StepKind.READ: "read a file",
    StepKind.WRITE: "wrote a file",
}
_OTHER = {
    StepKind.RUN: "another command was run",
    StepKind.READ: "another file was read",
    StepKind.WRITE: "something else was written",
}


class _Side(Record):
    rollout: Rollout
    trace: Trace | None
    problem: str = ""


def flip_diffs(records: Records, base: Run, cand: Run, judged: Verdict | Comparison, *, most: int = SHOWN) -> FlipDiffs:
    """Where each flipped cell parts, gained before lost, at most `most` of them; the others are named.

    `judged`: which cells flipped, of the rollouts it saw.  A trace that is lost is said so, and is no error.
    """
    before = _cells(records.rollouts(base.id), judged.base_attempts)
    after = _cells(records.rollouts(cand.id), judged.cand_attempts)
    every = [flip for flip in (*judged.gained, *judged.lost) if _cell(flip) in before and _cell(flip) in after]
    both = f"ht diff {short(base.id)}..{short(cand.id)}"
    return FlipDiffs(
        shown=tuple(
            _shown(flip, _side(records, before[_cell(flip)]), _side(records, after[_cell(flip)]), both)
            for flip in every[:most]
        ),
        left_out=tuple(f"{plain(flip.task)} s{flip.seed}" for flip in every[most:]),
        command=both,
    )


def cell_diff(records: Records, flip: Flip, base: Rollout, cand: Rollout) -> FlipDiff:
    """Where one cell parts, flipped or not: `flip` names it and what explains it."""
    both = f"ht diff {short(base.run)}..{short(cand.run)}"
    return _shown(flip, _side(records, base), _side(records, cand), both)


def _cells(rollouts: Iterable[Rollout], attempts: int) -> dict[tuple[str, int], Rollout]:
    every = list(rollouts)
    return {(one.task, one.seed): one for one in latest_attempts(every[:attempts] if attempts else every)}


def _cell(flip: Flip) -> tuple[str, int]:
    return flip.task, flip.seed


def _side(records: Records, rollout: Rollout) -> _Side:
    try:
        return _Side(rollout=rollout, trace=records.trace(rollout.id))
    except NotFound:
        return _Side(rollout=rollout, trace=None, problem="no trace was recorded")
    except StoreCorrupt as lost:
        return _Side(
            rollout=rollout, trace=None, problem=f"{lost.message}; {lost.hint or '`ht fsck` lists all damage'}"
        )


def _shown(flip: Flip, base: _Side, cand: _Side, both: str) -> FlipDiff:
    before, after = base.trace, cand.trace
    divergence = None
    steps: list[Step] = []
    if before is not None and after is not None:
        divergence = first_divergence(base.rollout, before.steps, cand.rollout, after.steps)
        shared = divergence.shared if divergence is not None else None
        steps = _exchanges(after.steps)[:shared]
    return FlipDiff(
        task=plain(flip.task),
        seed=flip.seed,
        kind=_kind(base.rollout, cand.rollout),
        attribution=flip.attribution,
        evidence=plain(flip.evidence),
        base=_told(base, divergence, divergence.base if divergence else None),
        cand=_told(cand, divergence, divergence.cand if divergence else None),
        shared=len(steps),
        prefix=tuple(step_line(step) for step in steps[-PREFIX:]),
        folded=max(0, len(steps) - PREFIX),
        parted=_parted(divergence, before, after) if divergence and before and after else None,
        command=f"{both} --task {shlex.quote(plain(flip.task))} --full",
    )


def _kind(base: Rollout, cand: Rollout) -> str:
    return "" if base.solved == cand.solved else "gained" if cand.solved else "lost"


def _exchanges(steps: Iterable[Step]) -> list[Step]:
    return [step for step in steps if step.kind is not StepKind.NOTE]


def _told(side: _Side, divergence: Divergence | None, at: Step | None) -> FlipSide:
    """What a side did from its step `at` on, and how it ended."""
    rollout = side.rollout
    rest: list[Step] = []
    if side.trace is not None and divergence is not None and at is not None:
        answered = divergence.kind in ("reply", "observation")  # the answer itself is what is compared
        rest = [step for step in _exchanges(side.trace.steps) if step.index >= at.index + answered]
    end = _end(side)
    return FlipSide(
        rollout=rollout.id,
        run=rollout.run,
        outcome=rollout.outcome.value,
        reason=rollout.reason,
        detail=one_line(rollout.detail, DETAIL),
        reward=rollout.reward,
        step=at.index if at is not None else None,
        followed=tuple(step_line(step) for step in rest[:FOLLOWED]),
        left=max(0, len(rest) - FOLLOWED),
        tail=end[0],
        tail_of=end[1],
        problem=plain(side.problem),
        command=f"ht show {short(rollout.id)}",
    )


def _end(side: _Side) -> tuple[str, str]:
    """The last that was seen of a rollout, and what that is."""
    if side.trace is None:
        return "", ""
    if side.rollout.outcome is Outcome.POLICY_CRASH and side.trace.log.strip():
        return tail(side.trace.log, TAIL_LINES, TAIL_CHARACTERS), "the harness's log"
    last = next((step for step in reversed(side.trace.steps) if step.stdout or step.stderr), None)
    if last is None:
        return "", ""
    return tail(output_text(last), TAIL_LINES, TAIL_CHARACTERS), f"the output of step {last.index}"


def _parted(divergence: Divergence, before: Trace, after: Trace) -> Parted:
    sentence, differing = _differing(divergence, before, after)
    return Parted(
        kind=divergence.kind, actor=_actor(divergence, after), sentence=sentence, differing=differing or SideBySide()
    )


def _actor(divergence: Divergence, after: Trace) -> str:
    if divergence.kind == "reply":
        return "model"
    if not divergence.harness_acted:
        return "environment"
    ended = divergence.base is None and divergence.cand is None
    return "verifier" if ended and any(step.kind is StepKind.SUBMIT for step in after.steps) else "harness"


def _differing(divergence: Divergence, before: Trace, after: Trace) -> tuple[str, SideBySide | None]:
    """What differs in one sentence, and the texts."""
    base, cand = divergence.base, divergence.cand
    if base is None and cand is None:
        return "Every request and action is the same; only the outcome differs.", None
    if base is None or cand is None:
        side = "baseline" if base is None else "candidate"
        other = "candidate" if base is None else "baseline"
        texts = side_by_side(
            *(None if step is None else _deed(step, trace) for step, trace in ((base, before), (cand, after)))
        )
        return f"The {side} had ended here; the {other} went on.", texts
    if divergence.kind == "request":
        return _request(divergence.message, base, before, cand, after)
    if divergence.kind == "reply":
        return "The same request got another reply.", side_by_side(reply_text(base), reply_text(cand))
    if base.action is not None and base.action == cand.action:
        what = "The same action gave another output"
        return f"{what}: {one_line(command_text(cand), 80)}.", side_by_side(output_text(base), output_text(cand))
    since = "After the same exchanges" if divergence.shared else "From the start"
    texts = side_by_side(_deed(base, before), _deed(cand, after))
    if StepKind.SUBMIT in (base.kind, cand.kind):
        first, other = ("baseline", "candidate") if base.kind is StepKind.SUBMIT else ("candidate", "baseline")
        return f"The {first} submitted here; the {other} went on.", texts
    if base.kind is cand.kind:
        texts = side_by_side(action_text(base), action_text(cand))
        return f"{since} {_OTHER.get(base.kind, 'something else was done')}.", texts
    did = [_DID.get(step.kind, "did something else") for step in (base, cand)]
    return f"{since} the baseline {did[0]}; the candidate {did[1]}.", texts


def _request(message: int | None, base: Step, before: Trace, cand: Step, after: Trace) -> tuple[str, SideBySide | None]:
    if message is None:
        texts = side_by_side(tools_text(before, base), tools_text(after, cand))
        if texts.differs:
            return "The messages of the request are the same; its tools differ.", texts
        return "Messages and tools of the request are the same; how it samples differs.", None
    left, right = base.messages[message:], cand.messages[message:]
    same = 0
    while same < min(len(left), len(right)) and left[-1 - same] == right[-1 - same]:
        same += 1
    left, right = left[: len(left) - same], right[: len(right) - same]
    texts = side_by_side(messages_text(before, left), messages_text(after, right))
    if not texts.differs and left and right and not texts.base_left:
        return "A message of the request differs, in characters that cannot be shown.", texts
    return _which(message, len(left), len(right), same), texts


def _which(message: int, left: int, right: int, same: int) -> str:
    """Which messages of a request differ: so many on either side, after `message` equal ones and before `same` ones."""
    around = []
    if message:
        around.append(f"the {message} before {'are' if message > 1 else 'is'} the same")
    if same:
        around.append(f"the {same} after {'are' if same > 1 else 'is'} the same")
    rest = f"; {' and '.join(around)}" if around else ""
    if not left:
        return f"The candidate's request has {_messages(right)} more, at place {message + 1}{rest}."
    if not right:
        return f"The candidate's request lacks {_messages(left)}, from place {message + 1}{rest}."
    if left == right == 1:
        return f"Message {message + 1} of the request differs{rest}."
    return f"From message {message + 1} on the requests differ: {_messages(left)} against {right}{rest}."


def _messages(count: int) -> str:
    return f"{count} message{'s' if count > 1 else ''}"


def _deed(step: Step, trace: Trace) -> str:
    """What the harness did: asked the model, submitted, or acted."""
    if step.kind is StepKind.LLM:
        return f"(asks the model)\n{messages_text(trace, step.messages[-1:]) or ''}"
    return "(submits)" if step.kind is StepKind.SUBMIT else f"({step.kind.value})\n{command_text(step)}"
