"""Tables as files: whole or not there, the same for the same records, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.rollout import Step, StepKind, Trace
from harnesstrain.core.records.verdict import Memo
from harnesstrain.store import Store
from harnesstrain.store.frames.catalogue import TABLES
from harnesstrain.store.frames.export import export, plan
from harnesstrain.store.frames.writing import JUST_MADE, Form, Written
from tests.store.making import a_rollout, a_trace, a_verdict, recorded

ROOT = Path(__file__).parents[3]
HOSTILE = (
    "=cmd|' /C calc'!A1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "＝1",
    "'quoted",
    'a,"b"\nc\r\nd',
    "",
    " =1",
    "\ufeffx",
    "\x1b[31mred",
    "naïve ☃",
)

EXPORTER = """
import sys
from pathlib import Path
from harnesstrain.store import Store
from harnesstrain.store.frames import arrow
from harnesstrain.store.frames.export import export, plan
from harnesstrain.store.frames.writing import Form
arrow.BATCH_ROWS = 20
with Store.open(sys.argv[1]) as store:
    for one in export(store, plan(None, Path(sys.argv[2]), Form(sys.argv[3])), Form(sys.argv[3])):
        print(one.table, flush=True)
"""

WRITER = """
import sys
from harnesstrain.store import Store
from tests.store.making import a_rollout, a_trace, a_verdict, recorded
with Store.open(sys.argv[1]) as store:
    before = recorded(store)
    for number in range(30):
        run = recorded(store, str(number))
        for task in range(2):
            rollout = a_rollout(run, f"task-{task}")
            store.commit_rollout(rollout, a_trace(rollout))
        store.complete_run(run.id)
        store.put_verdict(a_verdict(before, run))
        before = run
"""


def written(store: Store, folder: Path, form: Form = Form.PARQUET, name: str | None = None) -> list[Written]:
    return list(export(store, plan(name, folder, form), form))


def filled(store: Store, rollouts: int = 3, steps: int = 3) -> None:
    run = recorded(store)
    for number in range(rollouts):
        rollout = a_rollout(run, f"task-{number}", steps=steps)
        store.commit_rollout(rollout, a_trace(rollout, steps))
    store.put_verdict(a_verdict(run, run))


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("form", list(Form))
def test_a_folder_holds_every_table_and_the_same_bytes_again(store: Store, tmp_path: Path, form: Form) -> None:
    filled(store)
    made = written(store, tmp_path / "one", form)
    assert {one.table for one in made} == set(TABLES)
    rows = {one.table: one.rows for one in made}
    assert (rows["runs"], rows["rollouts"], rows["steps"], rows["verdicts"]) == (1, 3, 18, 1)
    assert all(one.bytes == one.file.stat().st_size and not one.lost for one in made)
    written(store, tmp_path / "two", form)
    store.complete_run(store.runs()[0].id)  # the traces lie elsewhere now
    once, again = bytes_of(tmp_path / "one"), bytes_of(tmp_path / "two")
    assert once == again and len(once) == len(TABLES)
    written(store, tmp_path / "two", form)
    changed = {name for name, data in bytes_of(tmp_path / "two").items() if data != once[name]}
    assert changed <= {f"runs.{form}"}, "a run that was completed says so, and nothing else changes"


def test_parquet_has_the_declared_columns(store: Store, tmp_path: Path) -> None:
    filled(store)
    written(store, tmp_path / "out")
    for name, table in TABLES.items():
        file = pq.ParquetFile(tmp_path / "out" / f"{name}.parquet")
        assert file.schema_arrow.names == [column.name for column in table.shape.columns]
        assert file.metadata.metadata[b"harnesstrain.table"] == name.encode()
    out = tmp_path / "out"
    query = f"SELECT count(*) FROM '{out}/steps.parquet' JOIN '{out}/rollouts.parquet' USING (rollout)"
    assert duckdb.sql(query).fetchall() == [(18,)]


def memos(store: Store, texts: Iterable[str]) -> None:
    for number, text in enumerate(texts):
        store.put_memo(Memo(id=f"{number:064x}", text=text))


def test_csv_is_text_to_a_spreadsheet_and_loses_nothing(store: Store, tmp_path: Path) -> None:
    memos(store, HOSTILE)
    (made,) = written(store, tmp_path / "memos.csv", Form.CSV, "memos")
    with made.file.open(newline="", encoding="utf-8") as file:
        cells = [row["text"] for row in csv.DictReader(file)]
    assert not [cell for cell in cells if cell[:1] in tuple("=+-@\t\r＝＋－＠")]
    assert [cell.removeprefix("'") for cell in cells] == list(HOSTILE)


def test_csv_is_read_alike_by_others(store: Store, tmp_path: Path) -> None:
    run = recorded(store)
    rollout = a_rollout(run)
    step = Step(index=0, kind=StepKind.RUN, action="{}", stdout=b"a\x00b", stderr=b"", ran=("a.py:1", "b,c.py:2"))
    store.commit_rollout(rollout, Trace(rollout=rollout.id, steps=(step,), messages={}))
    written(store, tmp_path / "out", Form.CSV)
    place = tmp_path / "out" / "steps.csv"
    (row,) = duckdb.sql(f"SELECT stdout, reasoning, ran, truncated, step FROM read_csv('{place}')").fetchall()
    assert row == ("a\ufffdb", None, '["a.py:1", "b,c.py:2"]', False, 0)
    frame = pd.read_csv(place)
    assert frame.stdout[0] == "a\ufffdb" and frame.step[0] == 0


def test_only_what_is_named_is_replaced(store: Store, tmp_path: Path) -> None:
    filled(store)
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "runs.parquet").write_text("old")
    (folder / "mine.txt").write_text("mine")
    written(store, folder, name="run")
    assert pq.read_table(folder / "runs.parquet").num_rows == 1
    assert sorted(bytes_of(folder)) == ["mine.txt", "runs.parquet"]


@pytest.mark.parametrize(
    ("name", "target", "form", "message"),
    [
        (None, "x.parquet", Form.PARQUET, "is one file"),
        ("run", "x.csv", Form.PARQUET, "name of another format"),
        ("nonsense", "out", Form.CSV, "no table 'nonsense'"),
        (None, "file", Form.CSV, "is not a folder"),
        ("run", "file", Form.CSV, "is not a folder"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, name: str | None, target: str, form: Form, message: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=message) as caught:
        plan(name, tmp_path / target, form)
    assert caught.value.hint


def test_a_folder_in_a_files_place_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "out" / "runs.csv").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"runs.csv is a folder"):
        written(store, tmp_path / "out", Form.CSV, "runs")


def test_the_stores_own_folders_are_refused(store: Store, folder: Path) -> None:
    filled(store)
    before = sorted(folder.rglob("*"))
    for place in (folder / "traces", folder / "blobs" / "x", folder / "x" / ".." / "traces"):
        with pytest.raises(UsageError, match="is the store's own"):
            written(store, place)
    assert sorted(folder.rglob("*")) == before


def test_runs_can_be_chosen(store: Store, tmp_path: Path) -> None:
    filled(store)
    other = recorded(store, "other")
    store.commit_rollout(a_rollout(other), a_trace(a_rollout(other)))
    made = list(export(store, plan(None, tmp_path, Form.PARQUET), Form.PARQUET, [other.id[:8]]))
    counts = {one.table: one.rows for one in made}
    assert (counts["runs"], counts["rollouts"], counts["steps"], counts["verdicts"]) == (1, 1, 6, 1)
    with pytest.raises(UsageError, match="'verdicts' cannot be limited"):
        list(export(store, plan("verdict", tmp_path, Form.CSV), Form.CSV, [other.id]))


@pytest.mark.parametrize("form", list(Form))
def test_a_kill_leaves_no_half_file(store: Store, folder: Path, tmp_path: Path, form: Form) -> None:
    filled(store, rollouts=12, steps=20)
    out = tmp_path / "out"
    out.mkdir()
    final = out / f"steps.{form}"
    argv = [sys.executable, "-c", EXPORTER, str(folder), str(out), form]
    for old in (None, b"the old one"):
        if old is not None:
            final.write_bytes(old)
        running = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL)
        while not any(path.stat().st_size > 1000 for path in out.glob(".steps.*.tmp")):
            assert running.poll() is None, "it ended before it could be killed"
            time.sleep(0.001)
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert (final.read_bytes() if final.exists() else None) == old
        (left,) = out.glob(".steps.*.tmp")
        os.utime(left, (time.time() - 2 * JUST_MADE,) * 2)
        written(store, tmp_path / "other", form)
        assert left.exists(), "an export elsewhere removes nothing here"
        left.rename(out / f".steps.{form}.kept.tmp")
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == set(TABLES)
    assert not list(out.glob(".*"))
    assert final.read_bytes() != old


def test_what_another_export_is_writing_stays(store: Store, tmp_path: Path) -> None:
    filled(store)
    left = tmp_path / ".runs.csv.0000.tmp"
    left.write_text("just made")
    written(store, tmp_path, Form.CSV, "runs")
    assert left.exists()
    os.utime(left, (0, 0))
    written(store, tmp_path, Form.CSV, "rollouts")
    assert left.exists(), "another file's"
    written(store, tmp_path, Form.CSV, "runs")
    assert not left.exists()


def test_an_export_beside_a_writer_is_whole(store: Store, folder: Path, tmp_path: Path) -> None:
    """Every row that is named is there, whatever is committed meanwhile, and nothing fails."""
    filled(store)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], cwd=ROOT)
    rounds = 0
    while writer.poll() is None or rounds == 0:
        out = tmp_path / str(rounds)
        assert not any(one.lost for one in written(store, out))
        for child, column, parent in (
            ("steps", "rollout", "rollouts"),
            ("rollouts", "run", "runs"),
            ("verdicts", "cand_run AS run", "runs"),
        ):
            query = f"SELECT {column} FROM '{out}/{child}.parquet'"
            query = f"SELECT count(*) FROM ({query}) ANTI JOIN '{out}/{parent}.parquet' USING ({parent[:-1]})"
            assert duckdb.sql(query).fetchall() == [(0,)], (child, parent)
        rounds += 1
    assert writer.returncode == 0
