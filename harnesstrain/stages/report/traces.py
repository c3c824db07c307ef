"""One rollout from its first request to its outcome, as data for a page of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Rollout, Step, StepKind, Trace, latest_attempts
from harnesstrain.core.records.run import Run
from harnesstrain.stages.report.plain import one_line, plain
from harnesstrain.stages.report.records import Report
from harnesstrain.stages.report.source import Records
from harnesstrain.stages.report.steplines import action_text, message_text, output_text, reply_text

LONGEST = 20_000
"""Characters of one message, reply, command or output."""
STEPS = 2_000
"""Steps of one page."""
LINES = 50
"""Changed lines named at one step."""


class Message(Record):
    """A message that a request has and the request before had not."""

    role: str
    text: str


class TraceStep(Record):
    """One exchange, or a note of the harness."""

    index: int
    kind: str
    """reply, note, or what was done: run, read, write, submit, stage, verify."""
    source: str
    """live, cache or snapshot."""
    duration: float
    """Recorded seconds."""
    kept: int = 0
    """reply: messages of the request that the request before began with as well."""
    gone: int = 0
    """reply: messages of the request before that this one has no more, or has elsewhere."""
    new: tuple[Message, ...] = ()
    """reply: the messages after those kept; the model's own last reply is left out, it stands above."""
    text: str = ""
    """The reply, the command, the note."""
    output: str = ""
    exit_code: int | None = None
    usage: Usage | None = None
    ran: tuple[str, ...] = ()
    """Changed code of the candidate that ran before this step."""


class TracePage(Record):
    """One rollout."""

    rollout: str
    run: str
    commit: str
    task: str
    seed: int
    attempt: int
    outcome: str
    reason: str | None
    detail: str
    reward: float | None
    usage: Usage
    llm_calls: int
    llm_cached: int
    actions: int
    actions_cached: int
    recorded_time: float
    isolated: bool
    other: str | None = None
    """The rollout of the same cell in the run it is compared with."""
    other_name: str = ""
    """What that one is: baseline or candidate."""
    parts: int | None = None
    """Step at which this one and the other part."""
    steps: tuple[TraceStep, ...] = ()
    left: int = 0
    """Steps after those."""
    ran_after: tuple[str, ...] = ()
    """Changed code that ran after the last step."""
    log: str = ""
    """What the harness wrote to its own log."""
    problem: str = ""
    """Why there are no steps; empty when there are."""
    command: str
    """Prints everything, nothing cut."""


class _Told(Record):
    """A page to be made."""

    run: Run
    rollout: Rollout
    other: Rollout | None = None
    other_name: str = ""
    parts: int | None = None


def trace_pages(records: Records, report: Report) -> Iterator[TracePage]:
    """A page for every rollout that the report's matrix links to, and for all of the compared runs; those come first.

    One trace is in memory at a time.
    """
    for one in _told(records, report):
        yield _page(records, one)


def page_names(records: Records, report: Report) -> tuple[str, ...]:
    """Ids of the rollouts that `trace_pages` gives pages to, in its order."""
    return tuple(one.rollout.id for one in _told(records, report))


def _told(records: Records, report: Report) -> Iterator[_Told]:
    head = report.header
    parted = {flip.base.rollout: flip.base.step for flip in report.flips.shown}
    parted |= {flip.cand.rollout: flip.cand.step for flip in report.flips.shown}
    base = {(one.task, one.seed): one for one in latest_attempts(records.rollouts(head.base_run))}
    after = latest_attempts(records.rollouts(head.cand_run)) if head.cand_run else []
    cand = {(one.task, one.seed): one for one in after}
    given: set[str] = set()
    for run_id, own, others, name in (
        (head.base_run, base, cand, "candidate"),
        (head.cand_run, cand, base, "baseline"),
    ):
        if run_id is None:
            continue
        run = records.run(run_id)
        for cell, rollout in own.items():
            given.add(rollout.id)
            other = others.get(cell)
            yield _Told(run=run, rollout=rollout, other=other, other_name=name, parts=parted.get(rollout.id))
    linked = {place.rollout for row in report.matrix.rows for place in row.places} - given
    for run_id in dict.fromkeys(column.run for column in report.matrix.columns):
        run = records.run(run_id)
        for rollout in records.rollouts(run_id):
            if rollout.id in linked and rollout.id not in given:
                given.add(rollout.id)
                yield _Told(run=run, rollout=rollout)


def _page(records: Records, told: _Told) -> TracePage:
    rollout, problem = told.rollout, ""
    trace: Trace | None = None
    try:
        trace = records.trace(rollout.id)
    except NotFound:
        problem = "No trace was recorded."
    except StoreCorrupt as lost:
        problem = f"{lost.message}; {lost.hint or '`ht fsck` lists all damage'}."
    command = f"ht cat-trace {short(rollout.id)} --messages"
    steps = tuple(_steps(trace, command)) if trace is not None else ()
    return TracePage(
        rollout=rollout.id,
        run=rollout.run,
        commit=told.run.commit,
        task=plain(rollout.task),
        seed=rollout.seed,
        attempt=rollout.attempt,
        outcome=rollout.outcome.value,
        reason=one_line(rollout.reason) if rollout.reason else None,
        detail=_bounded(rollout.detail, f"ht show {short(rollout.id)}"),
        reward=rollout.reward,
        usage=rollout.usage,
        llm_calls=rollout.llm_calls,
        llm_cached=rollout.llm_cached,
        actions=rollout.actions,
        actions_cached=rollout.actions_cached,
        recorded_time=rollout.recorded_time,
        isolated=rollout.isolated,
        other=told.other.id if told.other is not None else None,
        other_name=told.other_name if told.other is not None else "",
        parts=told.parts,
        steps=steps,
        left=len(trace.steps) - len(steps) if trace is not None else 0,
        ran_after=tuple(_named(trace.steps[-1].ran_after)) if trace is not None and trace.steps else (),
        log=_bounded(trace.log, command) if trace is not None else "",
        problem=plain(problem),
        command=command,
    )


def _steps(trace: Trace, command: str) -> Iterator[TraceStep]:
    before: Sequence[str] = ()
    said: str | None = None
    for step in trace.steps[:STEPS]:
        if step.kind is StepKind.LLM:
            yield _asked(trace, step, before, said, command)
            before, said = step.messages, step.content
        else:
            yield _done(step, command)


def _asked(trace: Trace, step: Step, before: Sequence[str], said: str | None, command: str) -> TraceStep:
    kept = next(
        (i for i, (old, new) in enumerate(zip(before, step.messages, strict=False)) if old != new),
        min(len(before), len(step.messages)),
    )
    new = [trace.messages.get(name) for name in step.messages[kept:]]
    if (
        new
        and said
        and isinstance(new[0], Mapping)
        and (new[0].get("role"), new[0].get("content")) == ("assistant", said)
    ):
        new = new[1:]
    return TraceStep(
        index=step.index,
        kind="reply",
        source=step.source.value,
        duration=step.duration,
        kept=kept,
        gone=len(before) - kept,
        new=tuple(_message(one, command) for one in new),
        text=_bounded(reply_text(step), command),
        usage=step.usage,
        ran=tuple(_named(step.ran)),
    )


def _message(message: Mapping[str, Any] | Sequence[Any] | None, command: str) -> Message:
    text = message_text(message)
    if not isinstance(message, Mapping):
        return Message(role="message", text=_bounded(text, command))
    return Message(role=one_line(str(message.get("role")), 40), text=_bounded(text.partition("\n")[2], command))


def _done(step: Step, command: str) -> TraceStep:
    if step.kind is StepKind.NOTE:
        text = plain(step.note or "")
    else:
        text = "" if step.kind is StepKind.SUBMIT else action_text(step)
    return TraceStep(
        index=step.index,
        kind=step.kind.value,
        source=step.source.value,
        duration=step.duration,
        text=_bounded(text, command),
        output=_bounded(output_text(step), command),
        exit_code=step.exit_code,
        ran=tuple(_named(step.ran)),
    )


def _bounded(text: str, command: str) -> str:
    """A text, of a long one its start and its end, with how much is missing between them and what shows it."""
    shown = plain(text)
    if len(shown) <= LONGEST:
        return shown
    end = LONGEST // 4
    left = len(shown) - LONGEST
    said = f"[… {left} characters left out here; `{command}` has all of it …]"
    return f"{shown[: LONGEST - end]}\n{said}\n{shown[-end:]}"


def _named(lines: Iterable[str]) -> list[str]:
    every = [plain(line) for line in lines]
    return every[:LINES] + ([f"and {len(every) - LINES} more"] if len(every) > LINES else [])
