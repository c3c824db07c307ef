"""The parts of a report in reading order, each as a title with sentences, a table or a text.  Renderers only lay out.

Order: the report in short, what limits belief, what was measured, the loop so far, task by epoch, the verdict and its
flips, where they part, levers, what was left out, how outcomes moved, noise, models, holdout, the diff, lineage, memo.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harnesstrain.core.ids import short
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.verdict import NOT_NEEDED, Excluded, Flip
from harnesstrain.stages.report.cost_parts import (
    changes_part,
    endings_part,
    levers_part,
    noise_part,
    regimes_part,
    tasks_part,
)
from harnesstrain.stages.report.flip_parts import told
from harnesstrain.stages.report.history import MARKS, ceiling, comparable, curve, sparkline
from harnesstrain.stages.report.models_part import models_parts
from harnesstrain.stages.report.overview_parts import belief, in_short, task_by_epoch, what_helped
from harnesstrain.stages.report.records import EpochRow, Report, VerdictShown
from harnesstrain.stages.report.tables import Part, Table

NONE = "–"
"""Shown where there is no value."""


def title(report: Report) -> str:
    """The page's title."""
    head = report.header
    cand = f" → {short(head.cand_commit)}" if head.cand_commit else ""
    return f"Report {short(head.base_commit)}{cand}"


def parts(report: Report) -> tuple[Part, ...]:
    """Every section that has something to say."""
    return tuple(
        part
        for part in (
            in_short(report),
            _warnings(report),
            belief(report),
            _measured(report),
            _epochs(report),
            task_by_epoch(report.matrix),
            what_helped(report),
            _verdict(report),
            _flips(report),
            _parted(report),
            levers_part(report.spending),
            tasks_part(report.spending),
            endings_part(report.spending),
            _left_out(report),
            _transitions(report),
            noise_part(report.noise),
            *models_parts(report.models),
            _holdout(report),
            changes_part(report.changes),
            _lineage(report),
            regimes_part(report.regimes),
            _memo(report),
        )
        if part.sentences or part.table or part.text
    )


def _measured(report: Report) -> Part:
    head = report.header
    seeds = f"{len(head.seeds)} seed{'s' if len(head.seeds) != 1 else ''}"
    lines = [f"Panel {head.panel} ({head.split or 'all splits'}): {head.tasks} tasks × {seeds}."]
    if head.model is not None:
        repeat = "repeats itself" if head.model.deterministic else "does not repeat itself"
        lines.append(f"Model {head.model.model} on {head.model.engine} {short(head.model.fingerprint)}; it {repeat}.")
    if head.sandbox:
        sampling = f" Sampling: {head.sampling}." if head.sampling else ""
        lines.append(f"Sandbox {head.sandbox}. Grading {head.grading}.{sampling}")
    runs = f"runs {short(head.base_run)} and {short(head.cand_run)}" if head.cand_run else f"run {short(head.base_run)}"
    lines.append(f"Regime {short(head.regime)}, {runs}.")
    lines.append(_certified(report))
    return Part(title="What was measured", sentences=tuple(lines))


def _certified(report: Report) -> str:
    shown = report.certification
    idle = len(shown.results.get(Certified.NO_CHAIN, ()))
    notes = [f"{idle} ran no command: nothing to certify"] if idle else []
    notes += [
        f"{result.replace('_', ' ')}: {_names(cells)}"
        for result, cells in shown.results.items()
        if result in ("forked", "not_certified")
    ]
    return f"Certified: {shown.certified - idle} of {shown.cells} cells" + (f" ({'; '.join(notes)})." if notes else ".")


def _warnings(report: Report) -> Part:
    return Part(title="Read with care", sentences=report.warnings)


def _epochs(report: Report) -> Part:
    if not report.epochs:
        return Part(title="Epochs")
    top = ceiling(report.epochs)
    points = curve(report.epochs)
    alike = comparable(report.epochs)
    since = f" since e{alike[0].number}, on another model or panel before" if len(alike) < len(report.epochs) else ""
    ends = f"Baseline solves {sparkline(points, top)}  {points[0]} → {points[-1]} of {top}{since}." if points else ""
    table = Table(
        heads=("epoch", "state", "candidate", "solved", "95 %", "+", "−", "hypothesis", "reason"),
        rows=tuple(_epoch(row) for row in report.epochs),
        right=("epoch", "solved", "+", "−"),
    )
    return Part(title="Epochs", sentences=(ends,) if ends else (), table=table)


def _epoch(row: EpochRow) -> tuple[str, ...]:
    solved = (
        NONE
        if row.solved is None
        else f"{row.solved}/{(row.cells or 0) - row.unmeasurable}{_failed(row.unmeasurable)}{_unneeded(row.not_needed)}"
    )
    band = f"{row.interval.low:.0%}–{row.interval.high:.0%}" if row.interval else NONE
    return (
        str(row.number),
        f"{MARKS.get(row.state, '·')} {row.state}",
        short(row.commit) if row.commit else NONE,
        solved,
        band,
        str(len(row.gained)) if row.verdict else NONE,
        str(len(row.lost)) if row.verdict else NONE,
        row.hypothesis or NONE,
        row.reason or NONE,
    )


def _verdict(report: Report) -> Part:
    shown = report.verdict
    if shown is None:
        return Part(title="Verdict")
    lines = []
    if shown.decision is not None:
        lines.append(f"{shown.decision.capitalize()} by {shown.criterion}, loss {shown.loss:g}: {shown.sentence}.")
    else:
        lines.append(f"{shown.sentence.capitalize()}.")
    cand = report.cand
    if cand is not None:
        change = f"{report.base.solved} → {cand.solved} of {shown.compared}"
        lines.append(f"Solved {change} compared cells: +{len(shown.gained)} −{len(shown.lost)}. {_strength(shown)}")
    if shown.proven_unchanged:
        what = "tasks" if len(report.header.seeds) == 1 else "cells"
        lines.append(
            f"{shown.proven_unchanged} of {shown.compared} {what} proven unchanged: same requests, same actions."
        )
    if shown.not_needed:
        cells = "1 cell was" if shown.not_needed == 1 else f"{shown.not_needed} cells were"
        lines.append(f"{cells} not needed: no outcome there could change this verdict.")
    return Part(title="Verdict", sentences=tuple(lines))


def _unneeded(cells: int) -> str:
    return f", {cells} not needed" if cells else ""


def _failed(cells: int) -> str:
    return f", {cells} unmeasurable" if cells else ""


def _strength(shown: VerdictShown) -> str:
    if shown.detectable:
        smallest = f"the smallest effect this panel can show at p ≤ 0.05 is {shown.detectable} clean gains"
    else:
        smallest = "the compared cells leave too few unsolved to reach p ≤ 0.05"
    return f"Exact one-sided McNemar p = {shown.p_value:.3g}; {smallest}."


def _flips(report: Report) -> Part:
    shown = report.verdict
    if shown is None:
        return Part(title="Flips")
    rows = [*_flip_rows("gained", shown.gained), *_flip_rows("lost", shown.lost), *_flip_rows("hollow", shown.hollow)]
    if not rows:
        return Part(title="Flips", sentences=("No outcome changed.",))
    heads = ("flip", "task", "seed", "baseline", "candidate", "attribution", "evidence")
    table = Table(heads=heads, rows=tuple(rows), right=("seed",))
    return Part(title="Flips", table=table)


def _flip_rows(kind: str, flips: Iterable[Flip]) -> Iterator[tuple[str, ...]]:
    for flip in flips:
        why = (flip.attribution or NONE, flip.evidence or NONE)
        yield (kind, flip.task, str(flip.seed), flip.base_outcome, flip.cand_outcome, *why)


def _parted(report: Report) -> Part:
    return Part(title="Where they part", text="\n".join(told(report.flips)))


def _left_out(report: Report) -> Part:
    rows = [*_excluded_rows("excluded", report.excluded), *_excluded_rows("unmeasurable", report.unmeasurable)]
    table = (
        Table(heads=("cell", "task", "seed", "reason", "detail"), rows=tuple(rows), right=("seed",)) if rows else None
    )
    return Part(title="Not compared", table=table)


def _excluded_rows(kind: str, cells: Iterable[Excluded]) -> Iterator[tuple[str, ...]]:
    for cell in cells:
        if cell.reason == NOT_NEEDED:
            yield ("not needed", cell.task, str(cell.seed), "the verdict was decided", NONE)
        else:
            yield (kind, cell.task, str(cell.seed), cell.reason, cell.detail or NONE)


def _transitions(report: Report) -> Part:
    heads = ("baseline", "candidate", "cells", "tasks")
    rows = tuple((one.base, one.cand, str(len(one.cells)), _names(one.cells, 12)) for one in report.transitions)
    return Part(title="How outcomes moved", table=Table(heads=heads, rows=rows, right=("cells",)) if rows else None)


def _holdout(report: Report) -> Part:
    heads = ("split", "commit", "run", "solved", "95 %", "unmeasurable", "complete")
    rows = tuple(
        (
            one.split,
            short(one.commit),
            short(one.run),
            f"{one.solved}/{one.cells}{_unneeded(one.not_needed)}",
            f"{one.interval.low:.0%}–{one.interval.high:.0%}",
            str(one.unmeasurable),
            "yes" if one.complete else "no",
        )
        for one in report.holdout
    )
    table = Table(heads=heads, rows=rows, right=("solved", "unmeasurable")) if rows else None
    lines = tuple(
        f"Whole lineage on {one.split}, {short(one.base_commit)} → {short(one.cand_commit)}: +{len(one.gained)} "
        f"−{len(one.lost)} of {one.compared} compared cells, p = {one.p_value:.3g}."
        for one in report.moved
    )
    return Part(title="Other splits", sentences=lines, table=table)


def _lineage(report: Report) -> Part:
    heads = ("from", "to", "state", "epoch", "gained", "lost", "hypothesis")
    rows = tuple(
        (
            short(one.old),
            short(one.new),
            one.state,
            str(one.epoch) if one.epoch is not None else NONE,
            _names(one.gained, 12) or NONE,
            _names(one.lost, 12) or NONE,
            one.hypothesis or NONE,
        )
        for one in report.lineage
    )
    return Part(title="Lineage", table=Table(heads=heads, rows=rows, right=("epoch",)) if rows else None)


def _memo(report: Report) -> Part:
    memo = report.memo
    if memo is None:
        return Part(title="Memo")
    by = f" by {memo.author}" if memo.author else ""
    when = f" after epoch {memo.epoch}" if memo.epoch is not None else ""
    return Part(title="Memo", sentences=(f"Written{by}{when}. Claims, not facts.",), text=memo.text)


def _names(names: Iterable[str], most: int = 8) -> str:
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")
