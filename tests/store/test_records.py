"""Append-only rows: once is enough, corrections are new rows, two claims to one id are corruption."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from harnesstrain.core.errors import NotFound, StoreCorrupt, UsageError
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.task import Environment, Task, Verifier
from harnesstrain.core.records.verdict import Decision, Epoch, Memo, Promotion
from harnesstrain.store import Store
from tests.store.making import COMMIT, ENDPOINT, PANEL, REGIME, a_candidate, a_run, a_verdict, recorded


def test_records_come_back_equal_and_putting_twice_changes_nothing(store: Store) -> None:
    run = recorded(store)
    verdict = a_verdict(run, a_run("other"))
    certificate = Certificate(id="f" * 64, kind="env", run=run.id, task="task-0", result=Certified.EXACT)
    assert store.put_verdict(verdict) and store.put_candidate(a_candidate()) and store.put_certificate(certificate)
    assert not store.put_verdict(verdict) and not store.put_run(run) and not store.put_regime(REGIME)

    assert store.run(run.id) == run and store.runs() == [run]
    assert store.regime(REGIME.digest) == REGIME
    assert store.panel(PANEL.digest) == PANEL
    assert store.endpoint(ENDPOINT.fingerprint) == ENDPOINT
    assert store.verdict(verdict.id) == verdict and store.verdicts()[0].loss == float("inf")
    assert store.candidate(a_candidate().id) == a_candidate() and len(store.candidates()) == 1
    assert store.certificates(run=run.id) == store.certificates(task="task-0", kind="env") == [certificate]
    assert store.certificates(run="0" * 64) == []
    assert len(list(store.export("run"))) == len(list(store.export("verdict"))) == 1


def test_another_record_under_the_same_id_is_corruption(store: Store) -> None:
    run = recorded(store)
    verdict = a_verdict(run, a_run("other"))
    store.put_verdict(verdict)
    store.put_candidate(a_candidate())
    with pytest.raises(StoreCorrupt, match="differ in commit"):
        store.put_run(run.model_copy(update={"commit": "d" * 40}))
    with pytest.raises(StoreCorrupt, match="differ in decision"):
        store.put_verdict(verdict.model_copy(update={"decision": Decision.SELECTED}))
    with pytest.raises(StoreCorrupt, match="differ in base"):
        store.put_candidate(a_candidate(base="e" * 40))
    assert store.run(run.id) == run and store.verdict(verdict.id) == verdict


def test_what_an_id_does_not_determine_may_be_corrected(store: Store) -> None:
    run = recorded(store)
    whole = run.model_copy(update={"split": "train"})
    assert store.put_run(whole) and not store.put_run(whole)
    assert store.run(run.id) == whole and store.runs() == [whole]
    certified = ENDPOINT.model_copy(update={"max_running": 8})
    assert store.put_endpoint(certified) and store.put_endpoint(ENDPOINT) and store.put_endpoint(certified)
    assert store.endpoint(ENDPOINT.fingerprint).max_running == 8
    renamed = PANEL.model_copy(update={"name": "other"})
    store.put_panel(renamed)
    assert store.panel(PANEL.digest) == renamed
    assert [entry["record"]["split"] for entry in store.export("run")] == [None, "train"]


def test_promotions_and_epochs_advance_by_rows(store: Store) -> None:
    intended = Promotion(id="a" * 64, verdict=None, branch="main", old=COMMIT, new="d" * 40, state="intended")
    store.put_promotion(intended)
    store.put_promotion(intended.model_copy(update={"state": "done"}))
    assert [promotion.state for promotion in store.promotions()] == ["done"]
    with pytest.raises(StoreCorrupt, match="differ in new"):
        store.put_promotion(intended.model_copy(update={"new": "e" * 40}))

    for number, state in ((2, "started"), (1, "started"), (2, "promoted"), (10, "started")):
        store.put_epoch(Epoch(number=number, base=COMMIT, state=state))
    assert [(epoch.number, epoch.state) for epoch in store.epochs()] == [
        (1, "started"),
        (2, "promoted"),
        (10, "started"),
    ]
    assert store.epoch(2).state == "promoted"
    with pytest.raises(NotFound):
        store.epoch(3)


def test_the_memo_put_last_is_the_latest_even_if_it_was_there_before(store: Store) -> None:
    assert store.memo() is None
    first, second = Memo(id="1" * 64, text="parser"), Memo(id="2" * 64, text="prompt")
    for memo in (first, second, second, first):
        store.put_memo(memo)
    assert store.memo() == first
    assert len(list(store.export("memo"))) == 3
    with pytest.raises(StoreCorrupt):
        store.put_memo(first.model_copy(update={"text": "other"}))


@pytest.mark.parametrize("text", ["e\u0301 \u00e9 \U0001f600 \x00\n", "", "x" * 200_000])
def test_text_is_kept_exactly(store: Store, text: str) -> None:
    store.put_memo(Memo(id="1" * 64, text=text))
    memo = store.memo()
    assert memo is not None and memo.text == text


def test_values_outside_utf8_and_not_finite_numbers_survive(store: Store) -> None:
    detail = {"said": "\ud800", "ratio": "Infinity", "list": [1.0, None, {"x": True}]}
    store.put_certificate(Certificate(id="1" * 64, kind="model", result=Certified.EXACT, detail=detail))
    assert store.certificates()[0].detail == detail


def test_a_task_keeps_what_it_says_and_no_path_of_this_machine(store: Store, tmp_path: Path) -> None:
    task = Task(
        name="t",
        digest="d" * 64,
        instruction="do it",
        environment=Environment(context=tmp_path, image="debian"),
        verifier=Verifier(tests=tmp_path),
    )
    assert store.put_task(task) and not store.put_task(task)
    kept = store.get("task", "d" * 64)
    assert kept["instruction"] == "do it" and str(tmp_path) not in str(kept)


def test_export_pages_through_everything_in_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesstrain.store.records.PAGE", 7)
    for number in range(20):
        store.put_candidate(a_candidate(number))
    rows = list(store.export("candidate"))
    assert [row["record"]["commit"] for row in rows] == [f"{number:040x}" for number in range(20)]
    assert [row["seq"] for row in rows] == list(range(1, 21))
    with pytest.raises(UsageError, match="no kind 'candidates'"):
        store.export("candidates")


def test_a_changed_row_is_noticed_when_read(store: Store, folder: Path) -> None:
    store.put_candidate(a_candidate())
    with sqlite3.connect(folder / "store.db") as connection:
        connection.execute("UPDATE candidates SET payload = replace(payload, 'shorter', 'longest')")
    connection.close()
    with pytest.raises(StoreCorrupt, match="not those that were committed") as caught:
        store.candidate(a_candidate().id)
    assert "ht fsck" in str(caught.value.hint)


def test_what_is_not_there_is_not_found(store: Store) -> None:
    for ask in (store.run, store.regime, store.panel, store.candidate, store.verdict, store.endpoint, store.rollout):
        with pytest.raises(NotFound):
            ask("0" * 64)
    with pytest.raises(NotFound):
        store.get("run", "0" * 64)
