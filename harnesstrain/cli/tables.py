"""Records as lines and objects for people and scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harnesstrain.cli.output import finite
from harnesstrain.core.ids import short
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.stages.report.history import LogRow, Score, Status
from harnesstrain.stages.report.plain import one_line
from harnesstrain.store.base import RunSummary

TITLE = 200
"""Characters of a hypothesis or a reason in `ht log`."""


def verdict_line(verdict: Verdict) -> str:
    """A verdict in one line."""
    flips = f"+{len(verdict.gained)} -{len(verdict.lost)}"
    return (
        f"{verdict.decision.value}: {verdict.sentence} · solved {verdict.base.solved} → {verdict.cand.solved} "
        f"of {verdict.cand.cells} ({flips}, p={verdict.p_value:.3g}){_unneeded(verdict.not_needed)}"
    )


def flip_lines(flips: Iterable[Mapping[str, Any]]) -> list[str]:
    """Flips (as objects) and what explains each, one a line."""
    rows = []
    for flip in flips:
        moved = "gained" if flip["gained"] else "lost"
        change = f"{flip['base_outcome']} → {flip['cand_outcome']}"
        why = explanation(flip["attribution"], flip.get("evidence", ""))
        rows.append((moved, f"{flip['task']} s{flip['seed']}", change, why))
    return columns(rows)


def explanation(attribution: str | None, evidence: str) -> str:
    """Whether a flip is the change's doing, and what that rests on."""
    return (attribution or "not traced") + (f": {evidence}" if evidence else "")


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """A verdict for --json: its record, with an infinite loss as text."""
    return verdict.model_dump(mode="json") | {"loss": finite(verdict.loss)}


def columns(rows: Sequence[Sequence[str]], header: Sequence[str] | None = None) -> list[str]:
    """Rows as aligned lines; the last column is not padded."""
    every = [list(header), *map(list, rows)] if header else list(map(list, rows))
    if not every:
        return []
    widths = [max(len(row[index]) for row in every) for index in range(len(every[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every]


def log_cells(row: LogRow) -> tuple[str, ...]:
    """A line of `ht log`."""
    name = f"e{row.epoch}" if row.epoch is not None else "-" if row.candidate else "verdict"
    flips = f"+{len(row.gained)} -{len(row.lost)}" if row.verdict else ""
    solved = _solved(row.score) if row.score else ""
    title = one_line(row.hypothesis or row.reason, TITLE)
    shown = row.verdict if name == "verdict" else row.candidate
    return (name, identifier(shown), f"{row.mark} {row.state}", solved, flips, title)


def _solved(score: Score) -> str:
    failed = f", {score.unmeasurable} unmeasurable" if score.unmeasurable else ""
    return f"{score.solved}/{score.cells - score.unmeasurable}{failed}{_unneeded(score.not_needed)}"


def run_cells(run: RunSummary) -> tuple[str, ...]:
    """A run as a line of `ht log`."""
    state = "" if run.complete else "incomplete"
    panel = f"{run.panel_name}/{run.split or 'all'}"
    solved = f"{run.solved}/{run.cells}{_unneeded(run.not_needed)}"
    return ("run", identifier(run.run), identifier(run.commit), panel, solved, state)


def status_lines(facts: Status) -> list[str]:
    """`ht status`, the part that records tell."""
    lines = []
    if facts.baseline_score:
        score = facts.baseline_score
        every = score.cells + score.not_needed + score.missing
        lacks = f"; {score.cells} of {every} measured" if score.missing else ""
        lines.append(f"solved    {score.solved} of {score.cells}{_unneeded(score.not_needed)}{lacks}")
    else:
        lines.append("solved    not measured on this panel and split; `ht evaluate` measures it")
    by_hand = f" and {facts.promoted_by_hand} by hand" if facts.promoted_by_hand else ""
    promoted = f"{facts.promoted - facts.promoted_by_hand} promoted{by_hand}"
    lines.append(f"epochs    {facts.epochs}, {promoted}, {facts.failures} failed proposals at the end")
    if facts.open_epoch:
        lines.append(f"open      epoch {facts.open_epoch.number}; `ht epoch` goes on with it")
    return lines


def _unneeded(cells: int) -> str:
    """Cells that an early decision left unmeasured."""
    return f", {cells} not needed" if cells else ""


def identifier(text: str | None) -> str:
    """An id as people see it."""
    return short(text) if text else "-"
