"""Aligning two runs by (task, seed).  Every cell of the panel lands in exactly one place.

compared        both sides are measurements of the harness
excluded        the baseline's own chain or its grading forked or is not certified, its harness does not repeat
                itself on it; or a gain's chain, grading or harness forked
open            unknown: missing, not needed, or an infrastructure outcome on either side

Certification always concerns the baseline's chain.  The candidate's certificate is looked at only where the candidate
gained, and can only take the gain away: a candidate cannot cause the exclusion of a task that it loses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harnesstrain.core.errors import StoreCorrupt, UsageError
from harnesstrain.core.ids import short
from harnesstrain.core.records.certificate import Certificate, Regraded
from harnesstrain.core.records.rollout import Outcome, Rollout, latest_attempts
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.verdict import NOT_NEEDED, Excluded
from harnesstrain.judge.certification import Evidence
from harnesstrain.judge.comparison import FORKED, MISSING, NOT_CERTIFIED, Comparison, OpenCell, Pair

ALIKE = "`ht evaluate BASE..CAND` measures both alike"
TOGETHER = "jobs of one configuration, imported together, are comparable: `ht import harbor JOB JOB`"
"""Hints for runs that are not comparable; the second for two that were imported."""


def compare(
    base: Run,
    cand: Run,
    base_rollouts: Iterable[Rollout],
    cand_rollouts: Iterable[Rollout],
    certificates: Iterable[Certificate] = (),
    *,
    tasks: Sequence[str] = (),
    certified: bool = False,
    deterministic: bool = True,
) -> Comparison:
    """Align two runs.

    Rollouts are every attempt, in order of commit.  `tasks` are the panel's task names, so that a cell missing on both
    sides is seen.  `certified` leaves out cells whose baseline chain has no certificate.  Raises UsageError when the
    runs are not comparable (regime, panel, split or seeds differ; it names which), StoreCorrupt when a task's digest
    differs inside one panel.
    """
    _check(base, cand)
    before_all, after_all = list(base_rollouts), list(cand_rollouts)
    old = {(r.task, r.seed): r for r in latest_attempts(before_all)}
    new = {(r.task, r.seed): r for r in latest_attempts(after_all)}
    evidence = Evidence(base.regime, certificates)
    place = {task: index for index, task in enumerate(tasks)}
    cells = {*old, *new, *((task, seed) for task in tasks for seed in base.seeds)}
    pairs: list[Pair] = []
    unknown: list[OpenCell] = []
    excluded: list[Excluded] = []
    absent = NOT_NEEDED if cand.early_stop_against == base.id else MISSING
    for task, seed in sorted(cells, key=lambda cell: (place.get(cell[0], len(place)), cell)):
        before, after = old.get((task, seed)), new.get((task, seed))
        if before is not None and after is not None and before.task_digest != after.task_digest:
            msg = f"task '{task}' has two digests in one panel"
            raise StoreCorrupt(msg, hint="`ht fsck` checks the store")
        if before is not None and (why := _barred(base.commit, before, evidence, certified)):
            excluded.append(why)
        elif before is None or after is None or not (before.outcome.scorable and after.outcome.scorable):
            unknown.append(_open(task, seed, before, after, absent))
        elif after.solved and not before.solved and (cert := evidence.forked(after)) is not None:
            excluded.append(_forked(after, cert, "the gain did not repeat, "))
        elif after.solved and not before.solved and (cert := evidence.parted(cand.commit, after)) is not None:
            excluded.append(_forked(after, cert, "the gain did not repeat: the harness parts from its record, "))
        else:
            pairs.append(Pair(task=task, seed=seed, base=before, cand=after))
    return Comparison(
        base_run=base,
        cand_run=cand,
        deterministic=all((deterministic, evidence.repeats(base.commit), evidence.repeats(cand.commit))),
        pairs=tuple(pairs),
        open=tuple(unknown),
        excluded=tuple(excluded),
        certificates=tuple(sorted(evidence.consulted)),
        certified=certified,
        base_attempts=len(before_all),
        cand_attempts=len(after_all),
    )


def _check(base: Run, cand: Run) -> None:
    differing: Mapping[str, tuple[object, object]] = {
        "regimes": (short(base.regime), short(cand.regime)),
        "panels": (f"{base.panel_name} {short(base.panel)}", f"{cand.panel_name} {short(cand.panel)}"),
        "splits": (base.split or "all", cand.split or "all"),
        "seeds": (list(base.seeds), list(cand.seeds)),
    }
    same = (base.regime == cand.regime, base.panel == cand.panel, base.split == cand.split, base.seeds == cand.seeds)
    for (what, (left, right)), equal in zip(differing.items(), same, strict=True):
        if not equal:
            raise UsageError(
                f"runs {short(base.id)} and {short(cand.id)} are not comparable: {what} {left} and {right} differ",
                hint=ALIKE if base.imported is None or cand.imported is None else TOGETHER,
                base=base.id,
                cand=cand.id,
                differs=what,
            )


def _barred(commit: str, before: Rollout, evidence: Evidence, certified: bool) -> Excluded | None:
    if before.outcome is Outcome.FORKED:
        return Excluded(task=before.task, seed=before.seed, reason=FORKED, detail=before.detail)
    if (cert := evidence.forked(before)) is not None:
        return _forked(before, cert, "")
    if (cert := evidence.parted(commit, before)) is not None:
        return _forked(before, cert, "the harness does not repeat itself, ")
    if certified and before.outcome.scorable and before.chain_digest is not None and not evidence.of(before):
        return Excluded(task=before.task, seed=before.seed, reason=NOT_CERTIFIED)
    return None


def _forked(rollout: Rollout, cert: Certificate, prefix: str) -> Excluded:
    where = f"step {cert.step}: {cert.command}" if cert.step is not None else "re-executed differently"
    if cert.step is None and cert.grading is Regraded.OTHER:
        where = cert.grading_reason
    return Excluded(task=rollout.task, seed=rollout.seed, reason=FORKED, detail=f"{prefix}{where}")


def _open(task: str, seed: int, before: Rollout | None, after: Rollout | None, absent: str) -> OpenCell:
    failed = [
        (side, rollout)
        for side, rollout in (("baseline", before), ("candidate", after))
        if rollout is not None and not rollout.outcome.scorable
    ]
    sides = [side for side, rollout in (("baseline", before), ("candidate", after)) if rollout is None]
    return OpenCell(
        task=task,
        seed=seed,
        base_solved=before.solved if before is not None and before.outcome.scorable else None,
        cand_solved=after.solved if after is not None and after.outcome.scorable else None,
        reason=failed[0][1].outcome.value if failed else (MISSING if before is None else absent),
        detail="; ".join([*(f"{side}: {r.detail or r.outcome.value}" for side, r in failed), *sides]),
    )
