"""Two runs out of the store, aligned; and a recorded verdict derived again from them, offline."""

from __future__ import annotations

from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.core.registry import load as plugin
from harnesstrain.judge import Attribution, attribute, compare
from harnesstrain.judge.attribution import CHANCE
from harnesstrain.judge.base import Criterion
from harnesstrain.judge.certification import unsteady
from harnesstrain.judge.comparison import Comparison
from harnesstrain.judge.rederive import Mismatch, rederive
from harnesstrain.store import Store

Known = dict[tuple[str, str], Attribution]
"""Attributions by the ids of the baseline's and the candidate's rollout.  Rollouts never change, so neither do they."""


def comparison_of(
    store: Store,
    base_run: str,
    cand_run: str,
    *,
    as_judged: Verdict | None = None,
    known: Known | None = None,
) -> Comparison:
    """Two recorded runs, aligned, with every certificate there is, and with what explains each flip.

    `as_judged`: only the rollouts and certificates that this verdict saw; what was added since does not count.
    `known`: attributions by the ids of the two rollouts, for a caller who asks again and again; filled here.
    """
    base, cand = store.run(base_run), store.run(cand_run)
    before, after = store.rollouts(base_run), store.rollouts(cand_run)
    certificates = store.certificates()
    if as_judged is not None:
        before, after = before[: as_judged.base_attempts], after[: as_judged.cand_attempts]
        certificates = [one for one in certificates if one.id in as_judged.certificates]
        cand = cand.model_copy(update={"early_stop_against": base.id if as_judged.not_needed else None})
    comparison = compare(
        base,
        cand,
        before,
        after,
        certificates,
        tasks=[task.name for task in store.panel(base.panel).tasks],
        certified=as_judged.certified if as_judged is not None else False,
        deterministic=store.regime(base.regime).deterministic,
    )
    found = attributions(store, comparison, {} if known is None else known)
    return comparison.model_copy(update={"attributions": found})


def attributions(store: Store, comparison: Comparison, known: Known) -> tuple[Attribution, ...]:
    """Why each compared cell flipped, from the traces of both sides.  A cell without traces has none.

    Where model or harness do not repeat themselves, no flip is said to be the change's doing.
    """
    commit, repeats = comparison.base_run.commit, comparison.deterministic
    every = (explained(store, commit, p.base, p.cand, repeats=repeats, known=known) for p in comparison.flipped)
    return tuple(one for one in every if one is not None)


def explained(
    store: Store, base_commit: str, base: Rollout, cand: Rollout, *, repeats: bool, known: Known
) -> Attribution | None:
    """Why one cell flipped; None when a side has no trace.  `repeats`: model and both harnesses repeat themselves."""
    if not repeats:
        return Attribution(task=base.task, seed=base.seed, verdict=None, evidence=CHANCE)
    ids = (base.id, cand.id)
    if ids not in known and base.trace and cand.trace:
        before, after = store.trace(base.id).steps, store.trace(cand.id).steps
        known[ids] = attribute(base_commit, base, before, cand, after)
    return known.get(ids)


def repeat_themselves(store: Store, base: Run, cand: Run) -> bool:
    """Whether model and both harnesses repeat themselves, as far as is known."""
    certificates = store.certificates()
    steady = not any(unsteady(one.commit, certificates) for one in (base, cand))
    return steady and store.regime(base.regime).deterministic


def rederived(store: Store, verdict: Verdict) -> tuple[Mismatch, ...]:
    """The fields of a verdict that its rollouts do not yield; empty when it holds."""
    name = verdict.criterion.partition("@")[0]
    criterion: Criterion = plugin("criteria", name)()
    comparison = comparison_of(store, verdict.base_run, verdict.cand_run, as_judged=verdict)
    return rederive(criterion, comparison, verdict)
