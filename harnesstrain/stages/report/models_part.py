"""Several models in a terminal, in Markdown and on a page: the matrix, and what limits each task."""

from __future__ import annotations

from harnesstrain.core.ids import short
from harnesstrain.judge.limits import Label, Limit
from harnesstrain.judge.statistics import ALPHA
from harnesstrain.stages.report.models import HarnessRow, ModelCell, ModelMatrix, TaskLimits
from harnesstrain.stages.report.tables import Part, Table

NONE = "–"
NAMED = 3
"""Versions named in a cell."""


def models_parts(matrix: ModelMatrix | None) -> tuple[Part, ...]:
    """Two parts, each empty where it has nothing to say."""
    if matrix is None:
        return ()
    return (models_part(matrix), limits_part(matrix))


def models_part(matrix: ModelMatrix) -> Part:
    """Versions by models: solves with their interval, what was not measured, the price of a solve."""
    heads = ("version", *(one.name for one in matrix.columns), "hypothesis")
    table = Table(heads=heads, rows=tuple(_row(row) for row in matrix.rows)) if matrix.rows else None
    lines = []
    if matrix.rows:
        lines.append("Solved of measured cells, 95 % interval, then tokens and model calls per solve.")
    loose = [one.name for one in matrix.columns if not one.deterministic]
    if loose:
        verb = "does" if len(loose) == 1 else "do"
        lines.append(f"{', '.join(loose)} {verb} not repeat itself: a difference may be chance.")
    contexts = {one.context_length for one in matrix.columns}
    if len(contexts) > 1:
        said = ", ".join(f"{one.name} {one.context_length}" for one in matrix.columns)
        lines.append(f"Context differs, as part of the model: {said} tokens.")
    if matrix.others:
        lines.append(f"Not shown: {_counted(matrix.others, 'version')} measured on one model only.")
    lines += [
        f"Left out: {_counted(len(one.runs), 'run')} on {one.model}; besides the model, {', '.join(one.fields)} "
        f"{'differs' if len(one.fields) == 1 else 'differ'}."
        for one in matrix.left_out
    ]
    return Part(title="Models", sentences=tuple(lines), table=table)


def limits_part(matrix: ModelMatrix) -> Part:
    """Tasks by models: what limits each, where it is neither solved nor unsolved everywhere."""
    title = "What limits each task"
    if not matrix.tasks:
        return Part(title=title, sentences=(f"No labels: {matrix.unlabelled}.",) if matrix.unlabelled else ())
    told = [one for one in matrix.tasks if one.everywhere is None]
    everywhere = {
        label: [one.task for one in matrix.tasks if one.everywhere is label] for label in (Label.SOLVED, Label.UNSOLVED)
    }
    lines = [
        f"Of {_counted(len(matrix.tasks), 'task')}: {len(everywhere[Label.SOLVED])} solved everywhere, "
        f"{len(everywhere[Label.UNSOLVED])} unsolved everywhere"
        + (f" ({', '.join(everywhere[Label.UNSOLVED])})." if everywhere[Label.UNSOLVED] else ".")
    ]
    lines += [f"{one.name}: {', '.join(f'{n} {label}' for label, n in one.labels.items())}." for one in matrix.columns]
    if told:
        lines.append(
            "harness-limited: another version solved it with this model. model-limited: no version here did, and one "
            "of them did with another model. Both speak of the versions, models and seeds that were measured."
        )
    if any(limit.p_value is not None for one in told for limit in one.limits):
        lines.append(f"Labels with a p passed Fisher's exact test at {ALPHA:g}; over many tasks some pass by chance.")
    heads = ("task", *(one.name for one in matrix.columns))
    table = Table(heads=heads, rows=tuple(_task(one) for one in told)) if told else None
    return Part(title=title, sentences=tuple(lines), table=table)


def _row(row: HarnessRow) -> tuple[str, ...]:
    return (short(row.commit), *(_cell(cell) for cell in row.cells), row.title or NONE)


def _cell(cell: ModelCell | None) -> str:
    if cell is None:
        return NONE
    band = f"{cell.interval.low:.0%}–{cell.interval.high:.0%}"
    rest = [
        f"{count} {what}"
        for count, what in (
            (cell.unmeasurable, "unmeasurable"),
            (cell.not_needed, "not needed"),
            (cell.missing, "missing"),
        )
        if count
    ]
    price = ""
    if cell.tokens_per_solve is not None and cell.calls_per_solve is not None:
        price = f"; {cell.tokens_per_solve:,.0f} tok, {cell.calls_per_solve:.1f} calls"
    return f"{cell.solved}/{cell.cells} ({band}){''.join(f', {one}' for one in rest)}{price}"


def _task(task: TaskLimits) -> tuple[str, ...]:
    return (task.task, *(_limit(one) for one in task.limits))


def _limit(limit: Limit) -> str:
    p_value = f", p {limit.p_value:.2g}" if limit.p_value is not None else ""
    match limit.label:
        case Label.HARNESS:
            return f"{limit.label}: {_versions(limit.limited)}; solved by {_versions(limit.solved_by)}{p_value}"
        case Label.MODEL if limit.witness is not None:
            return f"{limit.label}: {short(limit.witness)} solves it elsewhere{p_value}"
        case _:
            return limit.label.value


def _versions(commits: tuple[str, ...]) -> str:
    more = f" and {len(commits) - NAMED} more" if len(commits) > NAMED else ""
    return ", ".join(short(one) for one in commits[:NAMED]) + more


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
