"""Beyond one verdict: other splits, and the line of promotions."""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.verdict import Promotion, Verdict
from harnesstrain.stages.report.history import flipped, score
from harnesstrain.stages.report.pairing import pair
from harnesstrain.stages.report.plain import one_line
from harnesstrain.stages.report.records import Ancestor, Measured, Moved
from harnesstrain.stages.report.source import Records


def elsewhere(records: Records, base: Run) -> tuple[Measured, ...]:
    """Runs of the same regime on other splits, in order."""
    found = []
    for summary in records.summaries():
        scored = score(summary)
        if scored is None or summary.split in (None, base.split):
            continue
        if records.run(summary.run).regime != base.regime:
            continue
        found.append(
            Measured(
                run=summary.run,
                commit=summary.commit,
                split=summary.split or "all",
                solved=scored.solved,
                cells=scored.cells,
                unmeasurable=scored.unmeasurable,
                complete=summary.complete,
                interval=scored.interval,
                not_needed=scored.not_needed,
            )
        )
    return tuple(found)


def moved(records: Records, base: Run, certificates: Sequence[Certificate]) -> tuple[Moved, ...]:
    """The lineage's first and newest version, compared on every split where both were measured.

    Those that the loop chose by come last.
    """
    promoted = [promotion for promotion in records.promotions() if promotion.state == "done"]
    if not promoted:
        return ()
    first, last = promoted[0].old, promoted[-1].new
    runs = [one for one in records.runs() if one.regime == base.regime and one.split is not None]
    judged = {epoch.base_run for epoch in records.epochs()}
    loop = {(one.panel, one.split) for one in records.runs() if one.id in judged}
    several = len({one.panel_name for one in runs}) > 1
    ends = {(one.split, one.panel, one.seeds, one.commit): one for one in runs if records.is_complete(one.id)}
    found = []
    for (split, panel, seeds, commit), before in ends.items():
        after = ends.get((split, panel, seeds, last))
        if commit != first or after is None:
            continue
        comparison = pair(records, before, after, certificates)
        found.append(
            Moved(
                split=f"{before.panel_name}/{split}" if several else split or "all",
                chosen=(panel, split) in loop,
                base_commit=first,
                cand_commit=last,
                gained=flipped(comparison.gained),
                lost=flipped(comparison.lost),
                compared=len(comparison.pairs),
                p_value=comparison.p_value,
            )
        )
    return tuple(sorted(found, key=lambda one: one.chosen))


def lineage(records: Records) -> tuple[Ancestor, ...]:
    """Every promotion, in order."""
    verdicts = {verdict.id: verdict for verdict in records.verdicts()}
    candidates = {candidate.commit: candidate for candidate in records.candidates()}
    numbers = {epoch.promotion: epoch.number for epoch in records.epochs()}
    return tuple(
        _ancestor(one, verdicts.get(one.verdict or ""), candidates.get(one.new), numbers.get(one.id))
        for one in records.promotions()
    )


def _ancestor(
    promotion: Promotion, verdict: Verdict | None, candidate: Candidate | None, epoch: int | None
) -> Ancestor:
    return Ancestor(
        old=promotion.old,
        new=promotion.new,
        state=promotion.state,
        epoch=epoch,
        hypothesis=one_line(candidate.hypothesis) if candidate else "",
        gained=flipped(verdict.gained) if verdict else (),
        lost=flipped(verdict.lost) if verdict else (),
        verdict=promotion.verdict,
    )
