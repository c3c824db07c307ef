"""From the store's records to a Report.  Nothing is measured, executed or fetched here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.core.records.run import IMPORTED, Regime, Run
from harnesstrain.core.records.verdict import NOT_NEEDED, Decision, Excluded, Verdict
from harnesstrain.judge import Comparison, levers
from harnesstrain.judge.certification import certification, unsteady
from harnesstrain.judge.comparison import NOT_CERTIFIED
from harnesstrain.judge.transitions import transitions
from harnesstrain.stages.report.beyond import elsewhere, lineage, moved
from harnesstrain.stages.report.changes import Changes, changes
from harnesstrain.stages.report.flipdiffs import flip_diffs
from harnesstrain.stages.report.flips import FlipDiffs
from harnesstrain.stages.report.gradings import regraded
from harnesstrain.stages.report.history import epoch_rows
from harnesstrain.stages.report.matrix import matrix
from harnesstrain.stages.report.models import model_matrix
from harnesstrain.stages.report.noise import noise
from harnesstrain.stages.report.pairing import explained, pair, regime_of, tasks_of
from harnesstrain.stages.report.plain import cleaned
from harnesstrain.stages.report.promoted import completed, grown, helped
from harnesstrain.stages.report.records import (
    Certification,
    Header,
    MemoShown,
    ModelShown,
    Report,
    VerdictShown,
)
from harnesstrain.stages.report.regimes import regimes
from harnesstrain.stages.report.source import Records
from harnesstrain.stages.report.spending import spending

Patch = Callable[[str, str], str | None]
"""Two commits → the unified diff between them; None: it cannot be had."""

NAMED = 5
"""Tasks named in a warning."""


class ReportSpec(Record):
    """What to report on.  Nothing given: the newest verdict, else the newest run."""

    verdict: str | None = None
    """Verdict id."""
    base_run: str | None = None
    cand_run: str | None = None
    """Without it, `base_run` alone is reported."""


class _Chosen(Record):
    base: Run
    cand: Run | None
    verdict: Verdict | None


def build(
    records: Records, spec: ReportSpec | None = None, patch: Patch | None = None, *, acted: bool = True
) -> Report:
    """The report.  Byte for byte the same for the same records.

    `patch`: says what differs between two versions, for whoever can ask git.  `acted`: look up where every epoch's
    change acted, which takes the traces of its flips; the text forms do not show it.

    Raises NotFound (nothing was measured, an unknown id) or UsageError (the runs are not comparable).
    """
    chosen = _choose(records, spec or ReportSpec())
    regime = regime_of(records, chosen.base)
    certificates = list(records.certificates())
    comparison = pair(records, chosen.base, chosen.cand, certificates) if chosen.cand else None
    seen = chosen.verdict if comparison and not _outgrown(chosen.verdict, comparison) else None
    if comparison is not None and seen is None:
        comparison = explained(records, comparison, certificates)
    every_before = list(records.rollouts(chosen.base.id))
    every_after = list(records.rollouts(chosen.cand.id)) if chosen.cand else []
    before, after = latest_attempts(every_before), latest_attempts(every_after)
    rows = completed(records, epoch_rows(records), certificates)
    certified = _certification(chosen.base, before, certificates)
    certified = certified.model_copy(update=regraded(chosen.base, chosen.cand, before, after, certificates))
    report = Report(
        header=_header(records, chosen, regime),
        certification=certified,
        epochs=rows,
        verdict=_verdict(chosen.verdict, seen, comparison),
        base=seen.base if seen else (comparison.base if comparison else levers(before)),
        cand=seen.cand if seen else (comparison.cand if comparison else None),
        excluded=seen.excluded if seen else _excluded(comparison),
        unmeasurable=seen.unmeasurable if seen else _unmeasured(comparison, before),
        flips=_flips(records, chosen, seen or comparison),
        helped=helped(records, rows, certificates, compared=chosen.verdict.id if chosen.verdict else None)
        if acted
        else (),
        transitions=transitions(comparison) if comparison else (),
        holdout=elsewhere(records, chosen.base),
        models=model_matrix(records, chosen.base, certificates),
        moved=moved(records, chosen.base, certificates),
        lineage=grown(lineage(records), rows),
        memo=_memo(records),
        matrix=matrix(records, chosen.base, chosen.cand, certificates),
        spending=spending(before, comparison),
        noise=noise(records, (("baseline", every_before), ("candidate", every_after))),
        regimes=regimes(records, regime) if regime else None,
        changes=_changes(chosen, patch),
        loose=sum(not rollout.isolated for rollout in (*before, *after)),
        warnings=tuple(_warnings(records, chosen, regime, [*before, *after], certified, certificates)),
    )
    return Report.model_validate(cleaned(report.model_dump(mode="json")))


def _changes(chosen: _Chosen, patch: Patch | None) -> Changes | None:
    base, cand = chosen.base, chosen.cand
    if cand is None or patch is None or base.imported is not None or cand.imported is not None:
        return None
    text = patch(base.commit, cand.commit)
    return changes(base.commit, cand.commit, text) if text is not None else None


def _choose(records: Records, spec: ReportSpec) -> _Chosen:
    if spec.cand_run is not None and spec.base_run is None:
        raise UsageError("a candidate's run needs a baseline's run to compare with", hint="name both")
    if spec.base_run is not None:
        cand = records.run(spec.cand_run) if spec.cand_run else None
        judged = [v for v in records.verdicts() if (v.base_run, v.cand_run) == (spec.base_run, spec.cand_run)]
        return _Chosen(base=records.run(spec.base_run), cand=cand, verdict=judged[-1] if judged else None)
    verdicts = list(records.verdicts())
    if spec.verdict is not None or verdicts:
        verdict = records.verdict(spec.verdict) if spec.verdict is not None else verdicts[-1]
        return _Chosen(base=records.run(verdict.base_run), cand=records.run(verdict.cand_run), verdict=verdict)
    runs = list(records.runs())
    if not runs:
        raise NotFound("nothing was measured yet", hint="`ht evaluate` measures the baseline")
    configured = [run for run in runs if run.configured]
    return _Chosen(base=(configured or runs)[-1], cand=None, verdict=None)


def _header(records: Records, chosen: _Chosen, regime: Regime | None) -> Header:
    base, cand = chosen.base, chosen.cand
    sampling = regime.sampling if regime and regime.grading != IMPORTED else None
    return Header(
        base_commit=base.commit,
        cand_commit=cand.commit if cand else None,
        base_run=base.id,
        cand_run=cand.id if cand else None,
        panel=base.panel_name,
        panel_digest=base.panel,
        split=base.split,
        tasks=len(tasks_of(records, base)),
        seeds=base.seeds,
        regime=base.regime,
        model=_model(records, regime) if regime else None,
        sandbox=_sandbox(regime) if regime else "",
        grading=regime.grading if regime else "",
        sampling=f"temperature {sampling.temperature:g}, seed {sampling.seed}, {sampling.max_tokens} tokens a call"
        if sampling
        else "",
        command=f"ht report --compare {short(base.id)}..{short(cand.id)}" if cand else "ht report",
    )


def _sandbox(regime: Regime) -> str:
    if regime.grading == IMPORTED:
        return f"{regime.sandbox.kind} {regime.sandbox.pins}".strip()
    return f"{regime.sandbox.kind}, network {regime.sandbox.network}"


def _model(records: Records, regime: Regime) -> ModelShown | None:
    try:
        endpoint = records.endpoint(regime.endpoint)
    except NotFound:
        return None
    return ModelShown(
        engine=endpoint.engine,
        model=endpoint.model,
        fingerprint=endpoint.fingerprint,
        deterministic=regime.deterministic,
    )


def _certification(run: Run, rollouts: Sequence[Rollout], certificates: Iterable[Certificate]) -> Certification:
    if run.imported is not None:
        return Certification(certified=0, cells=len(rollouts), results={})
    results: dict[str, list[str]] = {}
    cells = certification(run.regime, rollouts, certificates)
    for cell in cells:
        name = f"{cell.task}#{cell.seed}" if len(run.seeds) > 1 else cell.task
        results.setdefault(cell.result, []).append(name)
    return Certification(
        certified=sum(cell.reproduced for cell in cells),
        cells=len(cells),
        results={result: tuple(sorted(names)) for result, names in sorted(results.items())},
    )


def _outgrown(verdict: Verdict | None, comparison: Comparison) -> bool:
    """Whether the cells that the verdict did not need were all measured since: then more is known than it saw."""
    return verdict is not None and bool(verdict.not_needed) and not comparison.absent


def _verdict(verdict: Verdict | None, seen: Verdict | None, comparison: Comparison | None) -> VerdictShown | None:
    """`seen`: the verdict, where nothing more is known than it saw."""
    if comparison is None:
        return None
    source = seen or comparison
    sentence = verdict.sentence if verdict else "compared, not judged"
    if verdict is not None and seen is None:
        sentence += f" (decided after {verdict.cand.cells} cells; the others were measured since)"
    return VerdictShown(
        id=verdict.id if verdict else None,
        criterion=verdict.criterion if verdict else None,
        decision=verdict.decision.value if verdict else None,
        loss=verdict.loss if verdict else None,
        sentence=sentence,
        gained=source.gained,
        lost=source.lost,
        hollow=source.hollow,
        p_value=source.p_value,
        detectable=source.detectable,
        proven_unchanged=source.proven_unchanged,
        compared=source.base.cells,
        not_needed=sum(one.reason == NOT_NEEDED for one in (seen.excluded if seen else comparison.absent)),
    )


def _flips(records: Records, chosen: _Chosen, judged: Verdict | Comparison | None) -> FlipDiffs:
    if chosen.cand is None or judged is None:
        return FlipDiffs()
    return flip_diffs(records, chosen.base, chosen.cand, judged)


def _memo(records: Records) -> MemoShown | None:
    memo = records.memo()
    return MemoShown(text=memo.text, epoch=memo.epoch, author=memo.author) if memo else None


def _excluded(comparison: Comparison | None) -> tuple[Excluded, ...]:
    return (*comparison.excluded, *comparison.absent) if comparison else ()


def _unmeasured(comparison: Comparison | None, rollouts: Iterable[Rollout]) -> tuple[Excluded, ...]:
    if comparison is not None:
        return comparison.unmeasurable
    failed = (rollout for rollout in rollouts if not rollout.outcome.scorable)
    return tuple(Excluded(task=r.task, seed=r.seed, reason=r.outcome.value, detail=r.detail) for r in failed)


def _where(forks: set[str], panel: Sequence[str]) -> str:
    """The tasks of a panel that forked, the first few by name; or how many others did."""
    here = [task for task in panel if task in forks]
    if not here:
        return f"{len(forks)} task{'s' if len(forks) > 1 else ''} of another panel"
    more = f" and {len(here) - NAMED} more" if len(here) > NAMED else ""
    return ", ".join(here[:NAMED]) + more


def _warnings(
    records: Records,
    chosen: _Chosen,
    regime: Regime | None,
    rollouts: Sequence[Rollout],
    certified: Certification,
    certificates: Sequence[Certificate],
) -> Iterator[str]:
    """What limits belief, in sentences."""
    if regime is None:
        yield "The regime of these runs is not in the store."
    elif imported := [run.imported for run in (chosen.base, chosen.cand) if run is not None and run.imported]:
        named = " and ".join(f"{one.agent} {one.version} in job {one.name}" for one in imported)
        yield (
            f"Imported from {imported[0].program}, measured by it and not here: {named}. Nothing is certified; "
            "a flip may be chance."
        )
    elif not regime.deterministic:
        yield "The model endpoint does not repeat itself: a flip may be chance; read the p-value, not the diff."
    for name, run in (("baseline", chosen.base), ("candidate", chosen.cand)):
        forks = {one.task or "" for one in unsteady(run.commit, certificates)} if run is not None else set()
        if run is not None and forks:
            yield (
                f"The {name}'s harness does not repeat itself on {_where(forks, tasks_of(records, run))}: a flip may "
                "be chance; nothing is proven unchanged."
            )
    loose = sum(not rollout.isolated for rollout in rollouts)
    if loose:
        yield f"{loose} of {len(rollouts)} rollouts were not isolated: a harness could reach the machine."
    for name, run in (("baseline", chosen.base), ("candidate", chosen.cand)):
        if run is not None and not records.is_complete(run.id):
            yield f"The {name}'s run {short(run.id)} ({run.place}) is not complete; `{run.command()}` measures more."
    missing = len(certified.results.get(NOT_CERTIFIED, ()))
    if missing:
        yield f"{missing} of {certified.cells} cells were never certified; `ht certify env` re-executes their chains."
    lost = chosen.verdict is not None and chosen.verdict.decision is Decision.REJECTED
    if chosen.cand is not None and chosen.base.split == "train" and not lost:
        measured = {one.commit for one in records.summaries() if one.split not in (None, "train") and one.complete}
        if chosen.cand.commit not in measured:
            yield "The candidate was not measured on the holdout split."
