"""fsck names what does not add up; gc removes what nothing names, and nothing else."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.records.rollout import Outcome
from harnesstrain.core.records.verdict import Epoch, Memo
from harnesstrain.store import Store
from tests.store.making import COMMIT, a_candidate, a_rollout, a_run, a_trace, a_verdict, recorded


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with one completed and one unfinished run."""
    for salt in ("", "other"):
        run = recorded(store, salt)
        for number in range(4):
            rollout = a_rollout(run, f"task-{number}")
            store.commit_rollout(rollout, a_trace(rollout))
    store.complete_run(a_run().id)
    store.put_candidate(a_candidate(transcript=store.put_blob(b"what it said")))
    store.put_memo(Memo(id="1" * 64, text="parser", transcript=store.put_blob(b"how it came to it")))
    assert store.fsck() == []
    return store


def edit(folder: Path, statement: str) -> None:
    """Change store.db behind the store's back."""
    with closing(sqlite3.connect(folder / "store.db")) as connection, connection:
        connection.execute(statement)


def found(store: Store, **options: bool) -> list[tuple[str, str]]:
    """(kind, subject's first part) of every finding."""
    return [(finding.kind, finding.subject.split("/")[0]) for finding in store.fsck(**options)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("DELETE FROM rollouts WHERE seq = 2", ("chain", "rollouts")),
        ("DELETE FROM rollouts WHERE seq = 4", ("chain", "runs")),
        ("DELETE FROM rollouts", ("chain", "runs")),
        ("DELETE FROM rollouts WHERE seq = 6", ("chain", "rollouts")),
        ("UPDATE rollouts SET payload = replace(payload, 'solved', 'forked') WHERE seq = 6", ("corrupt", "rollouts")),
        ("UPDATE rollouts SET chain = previous WHERE seq = 7", ("chain", "rollouts")),
        ("UPDATE regimes SET payload = '{}'", ("corrupt", "regimes")),
        ("UPDATE candidates SET id = 'ab'", ("corrupt", "candidates")),
        ("DELETE FROM panels", ("dangling", "runs")),
        ("DELETE FROM endpoints", ("dangling", "regimes")),
    ],
)
def test_changed_rows_are_named(filled: Store, folder: Path, statement: str, expected: tuple[str, str]) -> None:
    edit(folder, statement)
    assert expected in found(filled)


def test_dangling_references_are_named(filled: Store) -> None:
    filled.put_verdict(a_verdict(a_run(), a_run("never put")))
    filled.put_epoch(Epoch(number=1, base=COMMIT, state="started", candidate="9" * 64))
    problems = [finding.problem for finding in filled.fsck() if finding.kind == "dangling"]
    assert len(problems) == 2
    assert problems[0].startswith("cand_run names run") and problems[1].startswith("candidate names candidate")


def test_missing_and_orphan_files_are_named(filled: Store, folder: Path) -> None:
    own = next((folder / "traces" / a_run("other").id).glob("*.parquet"))
    own.rename(own.with_name("stray.parquet"))
    next((folder / "traces" / a_run().id).glob("run-*.parquet")).unlink()
    for blob in list((folder / "blobs").rglob("*.zst")):
        blob.rename(blob.with_suffix(".old"))
    for deep in (False, True):
        assert sorted(set(found(filled, deep=deep))) == [
            ("missing", "blobs"),
            ("missing", "traces"),
            ("orphan", "blobs"),
            ("orphan", "traces"),
        ]
    with pytest.raises(StoreCorrupt, match="missing"):
        filled.trace(filled.rollouts(a_run().id)[0].id)


def test_damaged_files_are_named_when_read(filled: Store, folder: Path) -> None:
    for path in [*(folder / "traces").rglob("*.parquet"), *(folder / "blobs").rglob("*.zst")]:
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 0xFF
        path.write_bytes(data)
    assert found(filled, deep=False) == []
    kinds = found(filled)
    assert {kind for kind, _ in kinds} == {"corrupt"}
    assert {subject for _, subject in kinds} == {"traces", "rollouts", "blobs"}


def test_a_damaged_database_is_named(filled: Store, folder: Path) -> None:
    filled.close()
    path = folder / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rollouts'").fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : (page - 1) * 4096 + 8] = b"\x00" * 8
    path.write_bytes(data)
    with Store.open(folder) as damaged:
        assert set(found(damaged)) == {("corrupt", "store.db")}
        with pytest.raises(StoreCorrupt, match="nothing was removed"):
            damaged.gc()


def test_gc_removes_what_nothing_names_and_nothing_else(filled: Store, folder: Path) -> None:
    traces = {rollout.id: filled.trace(rollout.id) for rollout in filled.rollouts(a_run("other").id)}
    stray = [
        folder / "traces" / a_run().id / ".run.parquet.12ab.tmp",
        folder / "traces" / ("0" * 64) / "0-0.parquet",
        folder / "blobs" / "ab" / ".x.tmp",
    ]
    for path in stray:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 10)
    unnamed = filled.put_blob(b"named by nothing")
    assert filled.gc().files == 0 and len(filled.fsck()) == 4
    for path in [*(folder / "traces").rglob("*"), *(folder / "blobs").rglob("*")]:
        os.utime(path, (1, 1))
    done = filled.gc()
    assert done.files == 4 and done.bytes > 30
    assert filled.fsck() == [] and not stray[1].parent.exists()
    assert {identifier: filled.trace(identifier) for identifier in traces} == traces
    with pytest.raises(NotFound):
        filled.blob(unnamed)
    memo = filled.memo()
    assert memo is not None and filled.blob(memo.transcript or "") == b"how it came to it"
    assert filled.blob(filled.candidates()[0].transcript or "") == b"what it said"
    assert filled.gc().files == 0


def test_files_of_an_interrupted_completion_are_no_orphans_for_long(filled: Store, folder: Path) -> None:
    """Killed between the row and the deletions: the run's file counts, its rollouts' files are left over."""
    rollout = filled.rollouts(a_run().id)[0]
    left = folder / "traces" / rollout.run / f"{rollout.id[:16]}-{str(rollout.trace)[:16]}.parquet"
    left.write_bytes(b"whatever was there")
    assert [finding.kind for finding in filled.fsck(deep=False)] == ["orphan"]
    filled.complete_run(a_run().id)
    assert filled.fsck() == []


def test_gc_leaves_everything_when_it_cannot_know_what_is_named(filled: Store, folder: Path) -> None:
    edit(folder, "UPDATE rollouts SET payload = '{}' WHERE seq = 6")
    with pytest.raises(StoreCorrupt):
        filled.gc(grace=0)
    assert len(list((folder / "traces").rglob("*.parquet"))) == 5


def test_traces_whose_database_is_gone_are_kept(filled: Store, folder: Path) -> None:
    filled.close()
    for path in folder.glob("store.db*"):
        path.unlink()
    kept = sorted((folder / "traces").rglob("*.parquet"))
    with Store.open(folder, create=True) as anew:
        (finding,) = (one for one in anew.fsck() if one.subject == "store.db")
        assert f"traces/ holds {len(kept)} files" in finding.problem
        with pytest.raises(StoreCorrupt, match="nothing was removed: no run is on record"):
            anew.gc(grace=0)
        assert sorted((folder / "traces").rglob("*.parquet")) == kept


def test_superseded_attempts_keep_their_traces(store: Store) -> None:
    run = recorded(store)
    first = a_rollout(run, outcome=Outcome.INFRA_LLM)
    second = a_rollout(run, attempt=2)
    for rollout in (first, second):
        store.commit_rollout(rollout, a_trace(rollout))
    store.complete_run(run.id)
    store.gc(grace=0)
    assert store.trace(first.id) == a_trace(first) and store.trace(second.id) == a_trace(second)


def test_blobs_come_back_or_say_why(store: Store, folder: Path) -> None:
    data = os.urandom(1000)
    digest = store.put_blob(data)
    assert store.put_blob(data) == digest and store.blob(digest) == data
    assert store.blob(store.put_blob(b"")) == b""
    path = next((folder / "blobs" / digest[:2]).glob("*"))
    for damage in (b"", b"short", path.read_bytes()[:-4], path.read_bytes()[:-1] + b"\x00"):
        path.write_bytes(damage)
        with pytest.raises(StoreCorrupt, match="damaged"):
            store.blob(digest)
    with pytest.raises(NotFound):
        store.blob("0" * 64)
