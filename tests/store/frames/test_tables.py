"""What the tables hold: every field of a record has its place, and the names are a contract."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import StoreCorrupt, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.llm import Sampling, Usage
from harnesstrain.core.records.rollout import Drift, Outcome, Rollout, Source, Step, StepKind, Trace
from harnesstrain.core.records.verdict import (
    NOT_NEEDED,
    Epoch,
    Excluded,
    Flip,
    Levers,
    Memo,
    Promotion,
)
from harnesstrain.store import Store
from harnesstrain.store.frames import arrow
from harnesstrain.store.frames.catalogue import TABLES, table
from harnesstrain.store.frames.reading import Reading
from harnesstrain.store.frames.shapes import Row
from tests.store.making import COMMIT, PANEL, REGIME, a_candidate, a_rollout, a_run, a_trace, a_verdict, recorded

GOLDEN = Path(__file__).parents[2] / "golden" / "tables.txt"


def rows(store: Store, name: str, *runs: str) -> list[Row]:
    """The rows of a table."""
    return list(TABLES[name].rows(Reading(store, runs)))


def test_names_and_types_stay() -> None:
    now = [f"{name} {column.name} {column.type}" for name, one in TABLES.items() for column in one.shape.columns]
    assert now == GOLDEN.read_text().splitlines(), "columns may be added to a table's end; add them here as well"


def test_names_need_no_quotes() -> None:
    for name, one in TABLES.items():
        empty = arrow.schema(one.shape).empty_table()
        columns = ", ".join(column.name for column in one.shape.columns)
        assert duckdb.sql(f"SELECT {columns} FROM empty ORDER BY {columns}").fetchall() == [], name
        assert len(set(empty.column_names)) == len(empty.column_names)


def mapped(*groups: Iterable[str]) -> set[str]:
    return {name for group in groups for name in group}


SPREAD = {"usage", "id"}
"""Fields that become columns of other names: token counts, and the table's own name."""


@pytest.mark.parametrize(
    ("record", "name", "elsewhere"),
    [
        (Rollout, "rollouts", {"recorded_time", "drift", "chain_digest", "requests_digest"}),
        (
            Step,
            "steps",
            {"index", "duration", "request_digest", "tools", "scrubbed_digest", "raw_digest"},
        ),
        (Candidate, "candidates", set()),
        (Certificate, "certificates", {"requests", "recorded_raw", "observed_raw", "proposal_reason"}),
        (Epoch, "epochs", {"number"}),
        (Promotion, "promotions", set()),
        (Memo, "memos", set()),
        (Flip, "flips", {"gained"}),
        (Excluded, "excluded", set()),
    ],
)
def test_no_field_is_forgotten(record: type[Record], name: str, elsewhere: set[str]) -> None:
    """A field that a record gets later is given a column, or named here."""
    columns = {column.name for column in TABLES[name].shape.columns}
    assert set(record.model_fields) - columns - SPREAD == elsewhere


def test_a_table_is_found_by_either_number() -> None:
    assert table("rollout") is table("rollouts")
    with pytest.raises(UsageError, match="no table 'regimes'") as caught:
        table("regimes")
    assert "runs, rollouts, steps" in (caught.value.hint or "")


def test_a_rollout(store: Store) -> None:
    run = recorded(store)
    first = a_rollout(run, outcome=Outcome.INFRA_LLM)
    drift = Drift(step=1, command="date \ud800", recorded="1", observed="2")
    again = a_rollout(run, attempt=2).model_copy(update={"reward": math.inf, "rewards": {"b": 1.0}, "drift": drift})
    for one in (first, again):
        store.commit_rollout(one, None)
    found = rows(store, "rollouts")
    assert [(one["rollout"], one["newest"], one["scorable"]) for one in found] == [
        (first.id, False, False),
        (again.id, True, True),
    ]
    one = found[1]
    assert one["outcome"] == "solved" and one["solved"] is True and one["reward"] == math.inf
    assert (one["commit"], one["panel"], one["split"], one["task"]) == (COMMIT, PANEL.name, "train", "task-0")
    assert (one["prompt_tokens"], one["completion_tokens"], one["seconds"]) == (100, 10, 1.5)
    assert (one["rewards"], one["drift_step"], one["drift_command"]) == ('{"b": 1.0}', 1, "date \ud800")
    (batch,) = arrow.batches(TABLES["rollouts"].shape, found)
    assert batch.column("drift_command").to_pylist() == [None, "date \ufffd"]
    assert rows(store, "rollouts", "f" * 64) == []


def test_a_run(store: Store) -> None:
    run, later = recorded(store), recorded(store, "again")
    store.put_candidate(a_candidate(commit=COMMIT))
    for number in (3, 4):
        store.put_epoch(Epoch(number=number, base=COMMIT, state="started", cand_run=run.id))
    store.commit_rollout(a_rollout(run), None)
    found = rows(store, "runs")
    assert [one["run"] for one in found] == [run.id, later.id]
    one = found[0]
    assert (one["epoch"], one["hypothesis"], one["seeds"], one["model"]) == (3, "shorter prompt", [1], "m")
    assert (one["cells"], one["solved"], one["tokens"], one["complete"]) == (1, 1, 110, False)
    assert one["regime"] == REGIME.digest and isinstance(one["recorded_at"], datetime)
    assert rows(store, "runs", later.id)[0]["run"] == later.id
    names = {column.name for column in TABLES["runs"].shape.columns}
    assert one.keys() == names, "a row that has everything has every column"


def test_steps(store: Store) -> None:
    run = recorded(store)
    rollout = a_rollout(run)
    steps = (
        Step(
            index=0,
            kind=StepKind.LLM,
            messages=("m",),
            content="say",
            usage=Usage(prompt=5, completion=2, cached=1),
            finish_reason="stop",
            request_digest="r",
        ),
        Step(
            index=1,
            kind=StepKind.RUN,
            source=Source.CACHE,
            duration=0.5,
            action=json.dumps({"kind": "run", "command": "cat x"}),
            exit_code=1,
            stdout=b"\xff\x00ok",
            stderr=b"",
            ran=("a.py:1",),
            truncated=True,
        ),
        Step(index=2, kind=StepKind.WRITE, action=json.dumps({"kind": "write", "path": "/x"}), error="no such folder"),
        Step(index=3, kind=StepKind.NOTE, note='{"valid": false}'),
        Step(index=4, kind=StepKind.NOTE, note="no json", ran_after=("b.py:2",)),
    )
    store.commit_rollout(rollout, Trace(rollout=rollout.id, steps=steps, messages={"m": {"role": "user"}}))
    untraced = a_rollout(run, "task-1")
    store.commit_rollout(untraced, None)
    found = rows(store, "steps")
    assert [(one["step"], one["kind"]) for one in found] == [
        (0, "llm"),
        (1, "run"),
        (2, "write"),
        (3, "note"),
        (4, "note"),
    ]
    assert {one["rollout"] for one in found} == {rollout.id}
    said, ran, wrote, noted, other = found
    assert (said["messages"], said["prompt_tokens"], said["cached_tokens"], said["request"]) == (1, 5, 1, "r")
    assert (ran["command"], ran["exit_code"], ran["truncated"], ran["source"]) == ("cat x", 1, True, "cache")
    assert (wrote["path"], wrote["command"], wrote["error"]) == ("/x", None, "no such folder")
    assert (noted["valid"], other["valid"], other["ran_after"]) == (False, None, ["b.py:2"])
    (batch,) = arrow.batches(TABLES["steps"].shape, found)
    plain = batch.to_pylist()
    assert plain[0]["content"] == "say"
    assert plain[1]["stdout"] == "\ufffd\x00ok" and plain[1]["stderr"] == "" and plain[0]["stdout"] is None
    assert plain[1]["ran"] == ["a.py:1"] and plain[0]["ran"] is None


def test_a_lost_trace_is_said(store: Store) -> None:
    run = recorded(store)
    kept, lost = a_rollout(run), a_rollout(run, "task-1")
    for one in (lost, kept):
        store.commit_rollout(one, a_trace(one))
    next(store.places.traces.rglob(f"{lost.id[:16]}-*")).unlink()
    with pytest.raises(StoreCorrupt, match="is missing"):
        rows(store, "steps")
    reading = Reading(store)
    reading.lost = []
    assert {one["rollout"] for one in TABLES["steps"].rows(reading)} == {kept.id}
    assert len(reading.lost) == 1 and lost.id[:8] in reading.lost[0]


@pytest.mark.parametrize("harm", ["cut", "emptied", "removed", "changed"])
def test_a_damaged_run_file_is_said_of_each_trace(store: Store, harm: str) -> None:
    run = recorded(store)
    for number in range(3):
        one = a_rollout(run, f"task-{number}")
        store.commit_rollout(one, a_trace(one))
    store.complete_run(run.id)
    before = rows(store, "steps")
    assert len(before) == 18
    (file,) = store.places.traces.rglob("run-*.parquet")
    data = file.read_bytes()
    if harm == "removed":
        file.unlink()
    else:
        middle = len(data) // 3
        changed = data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]
        file.write_bytes({"cut": data[:-100], "emptied": b"", "changed": changed}[harm])
    reading = Reading(store)
    reading.lost = []
    left = list(TABLES["steps"].rows(reading))
    assert reading.lost and len(left) == 18 - 6 * len(reading.lost)
    assert all(row in before for row in left), "never another step"


def test_a_verdict_and_its_cells(store: Store) -> None:
    base, cand = recorded(store), recorded(store, "cand")

    def flip(task: str, **more: Any) -> Flip:
        return Flip(task=task, seed=1, base_outcome="a", cand_outcome="b", **{"gained": False, **more})

    verdict = a_verdict(
        base,
        cand,
        gained=(flip("won", gained=True, attribution="attributed", evidence="a.py:3"),),
        lost=(flip("lost"),),
        hollow=(flip("moved"),),
        excluded=(Excluded(task="left", seed=1, reason=NOT_NEEDED),),
        unmeasurable=(Excluded(task="broken", seed=1, reason="missing", detail="infra_llm"),),
        cand_commit="d" * 40,
        p_value=0.25,
    ).model_copy(update={"cand": Levers(solved=2, cells=3, usage=Usage(prompt=7), recorded_time=2.5)})
    candidate = a_candidate(commit="d" * 40, epoch=7, predicted=("won",), files=("a.py",))
    store.put_candidate(candidate)
    store.put_verdict(verdict)
    promotion = Promotion(id=digest(1), verdict=verdict.id, branch="main", old=COMMIT, new="d" * 40, state="intended")
    store.put_promotion(promotion)
    store.put_promotion(promotion.model_copy(update={"state": "done"}))
    epoch = Epoch(number=7, base=COMMIT, base_run=base.id, state="started")
    store.put_epoch(epoch)
    done = {"candidate": candidate.id, "cand_run": cand.id, "verdict": verdict.id, "state": "promoted"}
    store.put_epoch(epoch.model_copy(update={**done, "promotion": promotion.id, "seconds": 3.0}))
    store.put_memo(Memo(id=digest(2), text="why", epoch=7, verdict=verdict.id, author="llm", usage=Usage(prompt=9)))

    (judged,) = rows(store, "verdicts")
    assert judged.keys() == {column.name for column in TABLES["verdicts"].shape.columns}
    assert (judged["epoch"], judged["decision"], judged["loss"]) == (7, "rejected", math.inf)
    assert [judged[name] for name in ("gained", "lost", "hollow", "excluded", "unmeasurable", "not_needed")] == [1] * 6
    assert (judged["cand_solved"], judged["cand_prompt_tokens"], judged["cand_seconds"]) == (2, 7, 2.5)
    found = rows(store, "flips")
    assert found[0].keys() == {column.name for column in TABLES["flips"].shape.columns}
    assert [(one["flip"], one["task"], one["epoch"], one["p_value"]) for one in found] == [
        ("gained", "won", 7, 0.25),
        ("lost", "lost", 7, 0.25),
        ("hollow", "moved", 7, 0.25),
    ]
    assert found[0]["hypothesis"] == "shorter prompt" and found[0]["evidence"] == "a.py:3"
    assert [(one["how"], one["task"], one["reason"], one["detail"]) for one in rows(store, "excluded")] == [
        ("excluded", "left", NOT_NEEDED, ""),
        ("unmeasurable", "broken", "missing", "infra_llm"),
    ]
    (turn,) = rows(store, "epochs")
    assert turn.keys() == {column.name for column in TABLES["epochs"].shape.columns}
    assert (turn["epoch"], turn["state"], turn["decision"], turn["gained"]) == (7, "promoted", "rejected", 1)
    assert (turn["commit"], turn["cand_solved"], turn["seconds"]) == ("d" * 40, 0, 3.0)
    (moved,) = rows(store, "promotions")
    assert (moved["state"], moved["epoch"]) == ("done", 7)
    (memo,) = rows(store, "memos")
    assert (memo["text"], memo["prompt_tokens"], memo["epoch"]) == ("why", 9, 7)
    (proposed,) = rows(store, "candidates")
    assert (proposed["predicted"], proposed["files"], proposed["status"]) == (("won",), ("a.py",), "candidate")


def test_certificates_and_panels(store: Store) -> None:
    recorded(store)
    made = Certificate(id=digest(3), kind="env", result=Certified.FORKED, task="t", seed=1, detail={"at": 1})
    store.put_certificate(made)
    store.put_certificate(made.model_copy(update={"result": Certified.EXACT}))
    (one,) = rows(store, "certificates")
    assert (one["certificate"], one["result"], one["detail"]) == (made.id, "exact", '{"at": 1}')
    listed = rows(store, "panels")
    assert [(one["position"], one["task"], one["split"]) for one in listed][1] == (1, "task-1", "train")
    assert {one["panel_digest"] for one in listed} == {PANEL.digest}
    assert rows(store, "caches") == [] and not store.places.cache.exists(), "looking makes no cache"


@given(st.lists(st.text() | st.none() | st.binary(), max_size=20))
def test_any_text_has_a_place(values: list[str | bytes | None]) -> None:
    shape = TABLES["memos"].shape
    made = list(arrow.batches(shape, [{"text": value} for value in values]))
    found = [text for batch in made for text in batch.column("text").to_pylist()]
    assert [text is None for text in found] == [value is None for value in values]
    for text, value in zip(found, values, strict=True):
        if isinstance(value, str) and all(not 0xD800 <= ord(letter) < 0xE000 for letter in value):
            assert text == value


def test_a_number_beyond_its_column_is_the_nearest(store: Store) -> None:
    regime = REGIME.model_copy(update={"sampling": Sampling(seed=10**22)})
    run = a_run().model_copy(update={"regime": regime.digest})
    recorded(store)
    store.put_regime(regime)
    store.put_run(run.model_copy(update={"id": "f" * 64}))
    (batch,) = arrow.batches(TABLES["runs"].shape, rows(store, "runs"))
    seeds = batch.column("sampling_seed").to_pylist()
    assert seeds == [REGIME.sampling.seed, 2**63 - 1]
    assert batch.column("seeds").to_pylist() == [[1], [1]]


def test_batches_end_with_rows_or_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = TABLES["memos"].shape
    monkeypatch.setattr(arrow, "BATCH_ROWS", 3)
    monkeypatch.setattr(arrow, "BATCH_BYTES", 10)
    assert [one.num_rows for one in arrow.batches(shape, [{"text": "a"}] * 7)] == [3, 3, 1]
    assert [one.num_rows for one in arrow.batches(shape, [{"text": "a" * 9}] * 4)] == [2, 2]
