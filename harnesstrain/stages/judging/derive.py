"""Two runs out of the store, aligned; and a recorded verdict derived again from them, offline."""

from __future__ import annotations

from harnesstrain.core.records.verdict import Verdict
from harnesstrain.core.registry import load as plugin
from harnesstrain.judge import compare
from harnesstrain.judge.base import Criterion
from harnesstrain.judge.comparison import Comparison
from harnesstrain.judge.rederive import Mismatch, rederive
from harnesstrain.store import Store


def comparison_of(store: Store, base_run: str, cand_run: str, *, as_judged: Verdict | None = None) -> Comparison:
    """Two recorded runs, aligned, with every certificate there is.

    `as_judged`: only the rollouts and certificates that this verdict saw; what was added since does not count.
    """
    base, cand = store.run(base_run), store.run(cand_run)
    before, after = store.rollouts(base_run), store.rollouts(cand_run)
    certificates = store.certificates()
    if as_judged is not None:
        before, after = before[: as_judged.base_attempts], after[: as_judged.cand_attempts]
        certificates = [one for one in certificates if one.id in as_judged.certificates]
    return compare(
        base,
        cand,
        before,
        after,
        certificates,
        tasks=[task.name for task in store.panel(base.panel).tasks],
        certified=as_judged.certified if as_judged is not None else False,
        deterministic=store.regime(base.regime).deterministic,
    )


def rederived(store: Store, verdict: Verdict) -> tuple[Mismatch, ...]:
    """The fields of a verdict that its rollouts do not yield; empty when it holds."""
    name = verdict.criterion.partition("@")[0]
    criterion: Criterion = plugin("criteria", name)()
    comparison = comparison_of(store, verdict.base_run, verdict.cand_run, as_judged=verdict)
    return rederive(criterion, comparison, verdict)
