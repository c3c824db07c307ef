"""What promoted changes did: their flips, those among cells measured only after the verdict too, and where they acted.

An early decision leaves cells out; when the candidate has become the baseline they are measured after all.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.judge import Comparison
from harnesstrain.stages.report.flipdiffs import flip_diffs
from harnesstrain.stages.report.history import flipped
from harnesstrain.stages.report.pairing import explained, pair
from harnesstrain.stages.report.records import Ancestor, EpochRow, Helped
from harnesstrain.stages.report.source import Records

SHOWN, FLIPS = 12, 3
"""Changes whose steps are shown, and flips of each."""


def completed(records: Records, rows: Sequence[EpochRow], certificates: Sequence[Certificate]) -> tuple[EpochRow, ...]:
    """The rows; those of promoted changes with the flips that were only measured after the verdict."""
    return tuple(_completed(records, row, certificates) for row in rows)


def _completed(records: Records, row: EpochRow, certificates: Sequence[Certificate]) -> EpochRow:
    if row.state != "promoted" or row.verdict is None:
        return row
    verdict = records.verdict(row.verdict)
    if not verdict.not_needed or row.not_needed:
        return row
    comparison = _again(records, verdict, certificates)
    if comparison is None:
        return row
    judged = {(flip.task, flip.seed) for flip in row.flips}
    later = tuple(one for one in (*comparison.gained, *comparison.lost) if (one.task, one.seed) not in judged)
    return row.model_copy(update={"later": later})


def _again(records: Records, verdict: Verdict, certificates: Sequence[Certificate]) -> Comparison | None:
    """The runs of a verdict as they are now; None when they cannot be compared any more."""
    try:
        found = pair(records, records.run(verdict.base_run), records.run(verdict.cand_run), certificates)
    except UsageError:
        return None
    return explained(records, found, certificates)


def helped(
    records: Records, rows: Sequence[EpochRow], certificates: Sequence[Certificate], *, compared: str | None
) -> tuple[Helped, ...]:
    """Where changes acted that flipped something: of the newest SHOWN of them, the first FLIPS.

    `compared`: id of the verdict whose flips the report shows anyway.
    """
    acted = [row for row in rows if row.every and row.verdict not in (None, compared)]
    found = []
    for row in acted[-SHOWN:]:
        verdict = records.verdict(row.verdict or "")
        judged = _again(records, verdict, certificates) if row.later else None
        base, cand = records.run(verdict.base_run), records.run(verdict.cand_run)
        flips = flip_diffs(records, base, cand, judged or verdict, most=FLIPS)
        found.append(Helped(epoch=row.number, state=row.state, hypothesis=row.hypothesis, flips=flips))
    return tuple(found)


def grown(line: Sequence[Ancestor], rows: Sequence[EpochRow]) -> tuple[Ancestor, ...]:
    """The lineage, with the flips that were measured after each verdict."""
    known = {row.number: row for row in rows}
    return tuple(
        one.model_copy(update={"gained": gained(known[one.epoch]), "lost": lost(known[one.epoch])})
        if one.epoch in known
        else one
        for one in line
    )


def gained(row: EpochRow) -> tuple[str, ...]:
    """Tasks that the epoch's change gained, those measured after the verdict too."""
    return flipped(flip for flip in row.every if flip.gained)


def lost(row: EpochRow) -> tuple[str, ...]:
    """Tasks that it lost."""
    return flipped(flip for flip in row.every if not flip.gained)
