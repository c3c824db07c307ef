"""Lists that are read on: right whoever wrote in the meantime, and never more read than was added."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from harnesstrain.core.errors import StoreCorrupt
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.verdict import Epoch
from harnesstrain.store import Store, records
from harnesstrain.store.kinds import Kind
from tests.store.making import COMMIT, a_candidate, recorded

ANOTHER = """\
import sys
from harnesstrain.core.records.verdict import Epoch
from harnesstrain.store import Store

with Store.open(sys.argv[1]) as store:
    store.put_epoch(Epoch(number=1, base="c" * 40, state="promoted"))
    store.put_epoch(Epoch(number=3, base="c" * 40, state="started"))
"""


def _epoch(number: int, state: str = "started") -> Epoch:
    return Epoch(number=number, base=COMMIT, state=state)


def test_what_another_process_wrote_since_is_seen(store: Store, folder: Path) -> None:
    store.put_epoch(_epoch(1))
    store.put_epoch(_epoch(2))
    assert store.epochs() == [_epoch(1), _epoch(2)]
    subprocess.run([sys.executable, "-c", ANOTHER, str(folder)], check=True)
    assert store.epochs() == [_epoch(1, "promoted"), _epoch(2), _epoch(3)]
    store.put_epoch(_epoch(3, "rejected"))
    assert store.epochs() == [_epoch(1, "promoted"), _epoch(2), _epoch(3, "rejected")]


def test_what_is_handed_out_is_the_callers(store: Store) -> None:
    store.put_candidate(a_candidate(1))
    store.candidates().clear()
    assert store.candidates() == [a_candidate(1)]


def test_a_correction_keeps_its_place(store: Store) -> None:
    run = recorded(store)
    other = recorded(store, "other")
    assert store.runs() == [run, other]
    whole = run.model_copy(update={"split": "train"})
    store.put_run(whole)
    assert store.runs() == [whole, other]


def test_only_what_was_added_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def counted(kind: Kind, row: Any) -> Record:
        built.append(row.id)
        return records.build(kind, row)

    monkeypatch.setattr("harnesstrain.store.known.build", counted)
    for number in range(5):
        store.put_candidate(a_candidate(number))
    assert len(store.candidates()) == 5 and len(built) == 5
    store.put_candidate(a_candidate(5))
    assert len(store.candidates()) == 6 and built[5:] == [a_candidate(5).id]
    assert len(store.candidates()) == 6 and len(built) == 6


def test_a_damaged_row_is_an_error_every_time(store: Store, folder: Path) -> None:
    store.put_candidate(a_candidate(0))
    assert store.candidates() == [a_candidate(0)]
    store.put_candidate(a_candidate(1))
    with sqlite3.connect(folder / "store.db") as database:
        database.execute("UPDATE candidates SET payload = '{}' WHERE seq = 2")
    store.put_candidate(a_candidate(2))
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match="not those that were committed"):
            store.candidates()


@pytest.mark.parametrize("kind", [None, "env", "model"])
def test_certificates_by_kind_are_those_of_the_newest_rows(store: Store, kind: str | None) -> None:
    env = Certificate(id="1" * 64, kind="env", task="task-0", result=Certified.FORKED)
    model = Certificate(id="2" * 64, kind="model", result=Certified.EXACT)
    store.put_certificate(env)
    store.put_certificate(model)
    again = env.model_copy(update={"result": Certified.EXACT})
    store.put_certificate(again)
    assert store.certificates(kind=kind) == [one for one in (again, model) if kind in (None, one.kind)]


def test_numbers_rise_in_the_order_of_commits(store: Store, folder: Path) -> None:
    """What reading on rests on: a writer's turn lasts from before its number is given until its commit."""
    with Store.open(folder) as other:
        for number in range(6):
            (store, other)[number % 2].put_candidate(a_candidate(number))
            assert [one.id for one in store.candidates()] == [a_candidate(k).id for k in range(number + 1)]
    with sa.create_engine(f"sqlite:///{folder / 'store.db'}").connect() as connection:
        numbers = connection.exec_driver_sql("SELECT seq FROM candidates ORDER BY at").scalars().all()
    assert numbers == sorted(numbers)
