"""The report in a few sentences, and the questions that decide whether to believe it."""

from __future__ import annotations

from collections.abc import Iterator

from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certified, Regraded
from harnesstrain.core.records.run import IMPORTED
from harnesstrain.judge.attribution import ATTRIBUTED
from harnesstrain.judge.comparison import NOT_CERTIFIED
from harnesstrain.stages.report.gradings import repeats
from harnesstrain.stages.report.history import ceiling, comparable, curve
from harnesstrain.stages.report.promoted import gained, lost
from harnesstrain.stages.report.records import Ancestor, EpochRow, Report

YES, NO, PARTLY, UNKNOWN = "yes", "no", "partly", "not known"
"""Answers: it speaks for the verdict, against it, for a part of it; or nobody looked."""
NAMED = 6
"""Tasks named in a sentence."""
THIS, LOOP = "the compared change", "the whole loop"
STATES = ("promoted", "selected", "rejected", "unmeasurable", "skipped", "failed", "abandoned", "started")
"""Of epochs, in the order in which they are counted out."""


class Check(Record):
    """One question and what the records say to it."""

    about: str
    """THIS or LOOP."""
    question: str
    answer: str
    """YES, NO, PARTLY or UNKNOWN."""
    told: str
    """One sentence."""


class Summary(Record):
    """What happened, in short sentences."""

    happened: tuple[str, ...]
    helped: tuple[str, ...]
    """Promoted changes that solved further tasks, oldest first: those of epochs, then those made by hand."""
    compared: tuple[str, ...]
    """What the rest of the report compares, and what was decided."""


def summary(report: Report) -> Summary:
    """The report in short."""
    helped = [_helped(row) for row in report.epochs if row.state == "promoted" and gained(row)]
    by_hand = [_helped_by_hand(one) for one in _by_hand(report) if one.gained]
    return Summary(
        happened=tuple(_happened(report)),
        helped=(*helped, *by_hand),
        compared=tuple(_compared(report)),
    )


def _happened(report: Report) -> Iterator[str]:
    epochs, by_hand = report.epochs, _by_hand(report)
    if epochs:
        counts = {state: sum(row.state == state for row in epochs) for state in STATES}
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        yield f"{_counted(len(epochs), 'epoch')}: {told}."
        points, top = curve(epochs), ceiling(epochs)
        if points:
            where = f" on {_panel(report)}" if any(one.state for one in report.matrix.columns) else ""
            left = len(epochs) - len(shown := comparable(epochs))
            since = f"Since e{shown[0].number} the" if left else "The"
            since = f"{since} epochs'" if by_hand else since
            yield f"{since} baseline went from {points[0]} to {points[-1]} of {top} solved{where}."
            if left:
                yield f"{_counted(left, 'epoch')} before that ran on another model or panel: no curve joins them."
    if by_hand:
        yield f"{_counted(len(by_hand), 'change')} {'was' if len(by_hand) == 1 else 'were'} promoted by hand."
    helped = any(row.state == "promoted" and gained(row) for row in epochs) or any(one.gained for one in by_hand)
    if epochs and not helped:
        yield "No change was promoted that solves a further task."
    for one in report.moved:
        chosen = "by which the loop chose" if one.chosen else "which no epoch was judged by"
        named = f" ({', '.join(one.gained[:NAMED])})" if one.gained and not one.chosen else ""
        yield (
            f"From the first version to the newest on {one.split}, {chosen}: +{len(one.gained)} −{len(one.lost)} of "
            f"{_counted(one.compared, 'compared cell')}{named}, p = {one.p_value:.3g}."
        )


def _compared(report: Report) -> Iterator[str]:
    shown = report.verdict
    if shown is None:
        base = report.base
        yield f"Only {short(report.header.base_commit)} was measured: {base.solved} of {base.cells} solved."
        return
    row = _epoch_of(report)
    what = f"e{row.number}, “{row.hypothesis}”" if row else short(report.header.cand_commit or "")
    against = "the baseline before it" if row else short(report.header.base_commit)
    decided = f"It was {shown.decision}: {shown.sentence}" if shown.decision else "Nobody judged this"
    yield f"Compared below: {what}, against {against}. {decided}."


def _epoch_of(report: Report) -> EpochRow | None:
    shown = report.verdict
    if shown is None or shown.id is None:
        return None
    return next((row for row in report.epochs if row.verdict == shown.id), None)


def _helped(row: EpochRow) -> str:
    worse = f", lost {', '.join(lost(row))}" if lost(row) else ""
    return f"e{row.number} “{row.hypothesis}”: gained {', '.join(gained(row))}{worse}"


def _by_hand(report: Report) -> tuple[Ancestor, ...]:
    """Promotions that no epoch made."""
    return tuple(one for one in report.lineage if one.epoch is None and one.state == "done")


def _helped_by_hand(one: Ancestor) -> str:
    worse = f", lost {', '.join(one.lost)}" if one.lost else ""
    what = f" “{one.hypothesis}”" if one.hypothesis else ""
    return f"{short(one.new)} by hand{what}: gained {', '.join(one.gained)}{worse}"


def checks(report: Report) -> tuple[Check, ...]:
    """Why the compared runs may be believed, or not."""
    return tuple(_checks(report))


def _checks(report: Report) -> Iterator[Check]:
    model = report.header.model
    if model is not None:
        told = "The same request gets the same reply." if model.deterministic else "A flip may be chance."
        yield _check("Does the model repeat itself?", model.deterministic, told)
    shown = report.certification
    idle = len(shown.results.get(Certified.NO_CHAIN, ()))
    regraded = len(shown.gradings.get(Regraded.OTHER, ()))
    forked = len(shown.results.get(Certified.FORKED, ())) - regraded
    if shown.cells:
        certified = shown.certified - idle + regraded
        never = len(shown.results.get(NOT_CERTIFIED, ()))
        reproduced = shown.certified + regraded == shown.cells
        answer = YES if reproduced else PARTLY if certified else NO if forked else UNKNOWN
        told = f"{certified} of {shown.cells} baseline cells gave the same outputs when they were executed again"
        told += f"; {forked} did not, and no verdict counts them" if forked else ""
        told += f"; {never} were never executed again" if never else ""
        if answer == UNKNOWN:
            told = "Not checked: no baseline cell was executed again"
        if idle:
            told = f"{idle} ran no command" if idle == shown.cells else f"{told}; {idle} ran no command"
        yield Check(about=THIS, question="Do the environments repeat themselves?", answer=answer, told=f"{told}.")
        alike, whole, told = repeats(shown)
        answer = UNKNOWN if alike is None else NO if not alike else YES if whole else PARTLY
        yield Check(about=THIS, question="Does the grading repeat itself?", answer=answer, told=told)
    if report.verdict is not None:
        yield from _of_verdict(report)
    if report.header.grading == IMPORTED:
        told = "Measured by another program; nothing is known of that."
        yield Check(about=THIS, question="Was every rollout isolated?", answer=UNKNOWN, told=told)
    else:
        told = (
            f"{report.loose} rollouts could reach the machine."
            if report.loose
            else "Harness and environment were confined."
        )
        yield _check("Was every rollout isolated?", not report.loose, told)
    yield _holdout(report)


def _of_verdict(report: Report) -> Iterator[Check]:
    shown = report.verdict
    if shown is None:
        return
    flips = (*shown.gained, *shown.lost)
    if flips:
        traced = sum(flip.attribution == ATTRIBUTED for flip in flips)
        known = sum(flip.attribution is not None for flip in flips)
        answer = YES if traced == len(flips) else PARTLY if traced else NO if known else UNKNOWN
        told = f"In {traced} of {_counted(len(flips), 'flip')} changed code ran before the two sides parted."
        if known < len(flips):
            told += f" {len(flips) - known} not traced."
        yield Check(about=THIS, question="Is the change what moved the outcomes?", answer=answer, told=told)
    told = f"Exact one-sided McNemar p = {shown.p_value:.3g} over {_counted(shown.compared, 'compared cell')}"
    if shown.detectable:
        told += f"; this panel needs {_counted(shown.detectable, 'clean gain')} for p ≤ 0.05"
    else:
        told += "; too few cells are left to gain for p ≤ 0.05"
    answer = YES if shown.p_value <= 0.05 else NO
    yield Check(about=THIS, question="Is the gain statistically significant?", answer=answer, told=f"{told}.")
    missing = len(report.unmeasurable)
    told = f"{_counted(missing, 'cell')} failed by the infrastructure." if missing else "No cell failed."
    if shown.not_needed:
        told += f" {_counted(shown.not_needed, 'cell')} could not change the verdict, and "
        told += "was left out." if shown.not_needed == 1 else "were left out."
    answer = PARTLY if missing or shown.not_needed else YES
    yield Check(about=THIS, question="Was everything measured?", answer=answer, told=told)


def _holdout(report: Report) -> Check:
    question = "Was it shown on tasks that the loop never saw?"
    others = [one for one in report.moved if not one.chosen]
    if others:
        one = others[-1]
        told = (
            f"{one.split}, first version against newest: +{len(one.gained)} −{len(one.lost)} of {one.compared}, "
            f"p = {one.p_value:.3g}."
        )
        better = len(one.gained) > len(one.lost)
        return Check(about=LOOP, question=question, answer=YES if better and one.p_value <= 0.05 else PARTLY, told=told)
    told = "Measured, but not first version against newest." if report.holdout else "No other split was measured."
    return Check(about=LOOP, question=question, answer=NO, told=told)


def _check(question: str, yes: bool, told: str) -> Check:
    return Check(about=THIS, question=question, answer=YES if yes else NO, told=told)


def _panel(report: Report) -> str:
    head = report.header
    return f"panel {head.panel} ({head.split or 'all splits'})"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
