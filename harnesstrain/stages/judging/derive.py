"""A recorded verdict derived again from the store's rollouts, offline."""

from __future__ import annotations

from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.rollout import latest_attempts
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.core.registry import load as plugin
from harnesstrain.judge import compare
from harnesstrain.judge.base import Criterion
from harnesstrain.judge.comparison import Comparison
from harnesstrain.judge.rederive import Mismatch, rederive
from harnesstrain.store import Store


def comparison_of(store: Store, base_run: str, cand_run: str) -> Comparison:
    """Two recorded runs, aligned, with the certificates that hold for the baseline's chains."""
    return compare(
        store.run(base_run),
        store.run(cand_run),
        latest_attempts(store.rollouts(base_run)),
        latest_attempts(store.rollouts(cand_run)),
        certificates_of(store, base_run),
    )


def certificates_of(store: Store, run: str) -> list[Certificate]:
    """The env certificates that hold for a run's chains: their own, and inherited ones."""
    rollouts = latest_attempts(store.rollouts(run))
    chains = {(r.task_digest, r.seed, r.chain_digest) for r in rollouts}
    return [
        certificate
        for certificate in store.certificates(kind="env", regime=store.run(run).regime)
        if (certificate.task_digest, certificate.seed, certificate.chain) in chains
    ]


def rederived(store: Store, verdict: Verdict) -> tuple[Mismatch, ...]:
    """The fields of a verdict that its rollouts do not yield; empty when it holds."""
    name = verdict.criterion.partition("@")[0]
    criterion: Criterion = plugin("criteria", name)()
    return rederive(criterion, comparison_of(store, verdict.base_run, verdict.cand_run), verdict)
