"""`harnesstrain.open_store()`: found where `ht` finds it, read only, and as data frames."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import harnesstrain
from harnesstrain.core.errors import ConfigError, HtError, NotFound, Prerequisite, StoreCorrupt, UsageError
from harnesstrain.store import Store
from harnesstrain.store.frames.catalogue import TABLES
from harnesstrain.store.frames.opened import OpenStore
from tests.store.making import a_candidate, a_rollout, a_trace, recorded
from tests.store.test_readonly import frozen

__all__ = ["frozen"]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def filled(folder: Path) -> Path:
    """A store with two runs."""
    with Store.open(folder, create=True) as store:
        for salt in ("", "again"):
            run = recorded(store, salt)
            for task in ("task-0", "task-1"):
                rollout = a_rollout(run, task)
                store.commit_rollout(rollout, a_trace(rollout))
        store.put_candidate(a_candidate())
    return folder


def test_importing_is_cheap() -> None:
    program = (
        "import sys; import harnesstrain; harnesstrain.open_store; import harnesstrain.store.frames\n"
        "print([name for name in ('sqlalchemy', 'pyarrow', 'pandas', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_table_is_a_frame_of_its_types(filled: Path) -> None:
    expected = {"int": "Int64", "bool": "boolean", "float": "float64", "time": "datetime64[us]"}
    with harnesstrain.open_store(filled) as store:
        assert set(store.tables) == set(TABLES) - {"caches"}
        for name in store.tables:
            frame = getattr(store, name)()
            assert isinstance(frame, pd.DataFrame)
            columns = TABLES[name].shape.columns
            assert list(frame.columns) == [column.name for column in columns]
            for column in columns:
                if column.type in expected:
                    assert str(frame[column.name].dtype) == expected[column.type], f"{name}.{column.name}"
            assert store.arrow(name).num_rows == len(frame)


def test_frames_hold_the_records(filled: Path) -> None:
    with harnesstrain.open_store(filled) as store:
        runs, rollouts, steps = store.runs(), store.rollouts(), store.steps()
        assert (len(runs), len(rollouts), len(steps)) == (2, 4, 24)
        assert list(rollouts.groupby("run", sort=False).completion_tokens.sum()) == [20, 20]
        one = runs.run[1]
        assert set(store.rollouts(one[:8]).run) == {one}
        assert len(store.rollouts([runs.run[0], one])) == 4
        rollout = rollouts.rollout[3]
        assert set(store.steps(rollout=rollout[:12]).rollout) == {rollout}
        assert len(store.steps(run=one)) == 12
        relation = duckdb.from_arrow(store.reader("steps"))
        assert relation.filter("kind = 'llm'").count("*").fetchall() == [(12,)]
        assert isinstance(store.arrow("run"), pa.Table)


def test_each_call_sees_what_was_committed_meanwhile(filled: Path) -> None:
    with Store.open(filled) as writer, harnesstrain.open_store(filled) as reader:
        assert len(reader.candidates()) == 1
        writer.put_candidate(a_candidate(2))
        assert len(reader.candidates()) == 2


def test_what_a_killed_writer_committed_is_there(filled: Path) -> None:
    program = """
import os, signal, sys
from harnesstrain.store import Store
from tests.store.making import a_candidate
Store.open(sys.argv[1]).put_candidate(a_candidate(3))
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", program, str(filled)], cwd=ROOT)
    assert killed.returncode == -9 and (filled / "store.db-wal").stat().st_size > 0
    with harnesstrain.open_store(filled) as store:
        assert len(store.candidates()) == 2


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda store: store.arrow("regimes"), UsageError, "no table 'regimes'"),
        (lambda store: store.arrow("caches"), UsageError, "no table to open"),
        (lambda store: store.arrow("verdicts", run="ffff"), UsageError, "cannot be limited to runs"),
        (lambda store: store.arrow("runs", rollout="ffff"), UsageError, "cannot be limited to a rollout"),
        (lambda store: store.rollouts("ffffffff"), NotFound, "no run"),
        (lambda store: store.rollouts("f"), UsageError, "too short"),
    ],
)
def test_what_cannot_be_asked(
    filled: Path, ask: Callable[[OpenStore], object], error: type[HtError], said: str
) -> None:
    with harnesstrain.open_store(filled) as store, pytest.raises(error, match=said) as caught:
        ask(store)
    assert caught.value.__notes__ == [f"hint: {caught.value.hint}"], "a notebook shows notes"


def test_a_lost_trace_is_an_error(filled: Path) -> None:
    with harnesstrain.open_store(filled) as store:
        next((filled / "traces").rglob("*.parquet")).unlink()
        with pytest.raises(StoreCorrupt, match="trace of rollout '.*' is missing") as caught:
            store.steps()
        assert caught.value.__notes__ == [f"hint: {caught.value.hint}"]
        assert len(store.rollouts()) == 4


def test_it_is_found_where_ht_finds_it(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "src" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "ht.toml").write_text("")
    for path in (tmp_path, inner, tmp_path / "ht.toml", filled, filled / "store.db", str(inner)):
        with harnesstrain.open_store(path) as store:
            assert len(store.runs()) == 2
    monkeypatch.chdir(inner)
    with harnesstrain.open_store() as store:
        assert len(store.runs()) == 2
    filled.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("HT_STORE", str(tmp_path / "elsewhere"))
    with pytest.raises(Prerequisite, match="no store at"):
        harnesstrain.open_store()
    with harnesstrain.open_store(environ={"HT_STORE": "../../elsewhere"}) as store:
        assert len(store.runs()) == 2
    (tmp_path / "ht.toml").write_text('[store]\npath = "elsewhere"\n')
    with harnesstrain.open_store() as store:
        assert len(store.runs()) == 2
    (tmp_path / "ht.toml").write_text("[nonsense]\nx = 1\n")
    with pytest.raises(ConfigError):
        harnesstrain.open_store()
    with pytest.raises(UsageError, match="no such file or folder"):
        harnesstrain.open_store(tmp_path / "gone")


def test_nothing_is_made_where_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(Prerequisite, match="no store at"):
        harnesstrain.open_store(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_it_changes_nothing(filled: Path) -> None:
    def files() -> dict[str, bytes]:
        found = {path.relative_to(filled).as_posix(): path.read_bytes() for path in filled.rglob("*") if path.is_file()}
        return {name: data for name, data in found.items() if not name.endswith(("-wal", "-shm"))}

    before = files()
    with harnesstrain.open_store(filled) as store:
        for name in store.tables:
            store.arrow(name)
    assert files() == before
    with Store.open(filled, read_only=True) as refusing, pytest.raises(Prerequisite, match="cannot change"):
        refusing.put_candidate(a_candidate(9))
    assert files() == before


def test_a_server_refuses_to_be_changed(postgres: str, tmp_path: Path) -> None:
    with Store.open(postgres, directory=tmp_path, create=True) as store:
        recorded(store)
    (tmp_path / "ht.toml").write_text(f'[store]\nurl = "{postgres}"\npath = "{tmp_path}"\n')
    with harnesstrain.open_store(tmp_path / "ht.toml") as opened:
        assert len(opened.runs()) == 1
    with Store.open(postgres, directory=tmp_path, read_only=True) as store, pytest.raises(HtError, match="read-only"):
        store.put_candidate(a_candidate())


def test_a_store_on_a_read_only_mount(filled: Path, frozen: Callable[..., str]) -> None:
    program = """
import sys
import harnesstrain
with harnesstrain.open_store(sys.argv[1]) as store:
    print(len(store.runs()), len(store.steps()))
"""
    assert frozen(filled, program, str(filled)) == "2 24\n"


def test_an_older_store_names_the_command_that_helps(filled: Path) -> None:
    connection = sqlite3.connect(filled / "store.db")
    connection.execute("UPDATE alembic_version SET version_num = '0000'")
    connection.commit()
    connection.close()
    with pytest.raises(Prerequisite, match="has schema 0000") as caught:
        harnesstrain.open_store(filled)
    assert "ht db upgrade" in (caught.value.hint or "")


def test_without_pandas(filled: Path) -> None:
    program = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import harnesstrain
from harnesstrain.core.errors import Prerequisite
with harnesstrain.open_store(sys.argv[1]) as store:
    print(store.arrow("runs").num_rows)
    try:
        store.runs()
    except Prerequisite as error:
        print(error.message, error.hint, sep="\\n")
"""
    argv = [sys.executable, "-c", program, str(filled)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    count, message, hint = done.stdout.splitlines()
    assert (count, message) == ("2", "data frames need pandas, which is not installed")
    assert "pip install" in hint and ".arrow(" in hint


def test_closing_twice_is_fine(filled: Path) -> None:
    store = harnesstrain.open_store(filled)
    store.close()
    store.close()


def test_an_empty_path_is_not_here(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled)
    with pytest.raises(UsageError, match="the path is empty"):
        harnesstrain.open_store("")
