"""A recorded verdict holds whatever was added to the store since, and shows when a row was forged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.core.records.verdict import Decision
from harnesstrain.judge import StrictPareto
from harnesstrain.stages.judging.derive import comparison_of, rederived
from harnesstrain.store import Store
from tests.stages.test_report import FAILED, SOLVED, A, B, History


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with Store.open(tmp_path / ".ht", create=True) as store:
        yield History(store)


def test_later_certificates_and_retries_do_not_change_a_verdict(history: History) -> None:
    store = history.store
    base = history.run(A, {"t1": FAILED, "t2": FAILED, "t3": FAILED})
    cand = history.run(B, {"t1": SOLVED, "t2": SOLVED, "t3": "infra_llm"})
    history.certify(base, {"t1": "exact"})
    verdict = StrictPareto().judge(comparison_of(store, base.id, cand.id))
    store.put_verdict(verdict)
    assert verdict.decision is Decision.SELECTED
    assert len(verdict.certificates) == 1
    history.certify(base, {"t2": "forked"})
    again = history.rollout(cand, "t3", SOLVED, attempt=2)
    store.commit_rollout(again.model_copy(update={"id": cand.rollout_id("t3", 1, 2)}), None)
    assert rederived(store, store.verdict(verdict.id)) == ()
    newer = StrictPareto().judge(comparison_of(store, base.id, cand.id))
    assert newer.id != verdict.id
    assert [flip.task for flip in newer.gained] == ["t1", "t3"]


def test_a_forged_verdict_does_not_hold(history: History) -> None:
    base, cand = history.run(A, {"t1": SOLVED}), history.run(B, {"t1": FAILED})
    honest = StrictPareto().judge(comparison_of(history.store, base.id, cand.id))
    assert rederived(history.store, honest) == ()
    forged = honest.model_copy(update={"lost": (), "loss": -1.0, "decision": Decision.SELECTED})
    assert {one.field for one in rederived(history.store, forged)} == {"lost", "loss", "decision"}
