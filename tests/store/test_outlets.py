"""What is there already decides how a file is written: replaced, through a link, or into a pipe."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harnesstrain.cli import pages
from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.core.records.verdict import Memo
from harnesstrain.store import Store
from harnesstrain.store.frames.export import check, export, plan
from harnesstrain.store.frames.writing import Form, Written
from harnesstrain.store.outlets import outlet


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / ".ht", create=True) as made:
        made.put_memo(Memo(id="0" * 64, text="remember"))
        yield made


def exported(store: Store, target: Path, form: Form = Form.CSV) -> Written:
    (written,) = export(store, plan("memos", target, form), form)
    return written


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def drained(fifo: Path) -> tuple[threading.Thread, list[bytes]]:
    """A reader of a pipe, at work, and what it has read."""
    read: list[bytes] = []
    thread = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    thread.start()
    return thread, read


def test_a_pipe_is_written_to(store: Store, tmp_path: Path) -> None:
    fifo = tmp_path / "memos"
    os.mkfifo(fifo)
    thread, read = drained(fifo)
    written = exported(store, fifo)
    thread.join(30)
    assert b"remember" in read[0] and written.bytes == len(read[0])
    thread, read = drained(fifo)
    pages.write(fifo, "a report ☃\n")
    thread.join(30)
    assert read == ["a report ☃\n".encode()]
    assert fifo.is_fifo() and sorted(tmp_path.iterdir()) == [tmp_path / ".ht", fifo]


def test_parquet_does_not_go_into_a_pipe(store: Store, tmp_path: Path) -> None:
    fifo = tmp_path / "memos.parquet"
    os.mkfifo(fifo)
    planned = plan("memos", fifo, Form.PARQUET)
    with pytest.raises(UsageError, match="is no plain file") as raised:
        check(store, planned, Form.PARQUET)
    assert raised.value.hint
    with pytest.raises(UsageError, match="is one file, and there are"):
        plan(None, fifo, Form.PARQUET)


def test_a_link_stays(store: Store, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link, dangling, place = tmp_path / "l.csv", tmp_path / "d.csv", tmp_path / "far" / "old"
    place.write_text("old")
    link.symlink_to(place)
    dangling.symlink_to("far/new")
    pages.write(link, "report")
    assert link.is_symlink() and place.read_text() == "report"
    written = exported(store, link)
    assert link.is_symlink() and "remember" in place.read_text() and written.bytes == place.stat().st_size
    exported(store, dangling)
    assert dangling.is_symlink() and (tmp_path / "far" / "new").read_text() == place.read_text()
    assert {one.name for one in (tmp_path / "far").iterdir()} == {"old", "new"}


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o755])
def test_a_mode_is_kept(store: Store, tmp_path: Path, bits: int) -> None:
    csv, parquet = tmp_path / "a.csv", tmp_path / "a.parquet"
    for path in (csv, parquet):
        path.write_text("old")
        path.chmod(bits)
    exported(store, csv)
    exported(store, parquet, Form.PARQUET)
    assert pq.read_metadata(parquet).num_rows == 1
    assert (mode(csv), mode(parquet)) == (bits, bits)
    pages.write(csv, "report")
    assert (csv.read_text(), mode(csv)) == ("report", bits)


def test_the_owner_is_kept(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file away needs root")
    path = tmp_path / "a"
    path.write_text("old")
    os.chown(path, 4321, 4321)
    pages.write(path, "report")
    assert (path.read_text(), path.stat().st_uid, path.stat().st_gid) == ("report", 4321, 4321)


def test_no_folder_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (Path(), Path(".."), Path("/"), tmp_path, Path("link")):
        with pytest.raises(UsageError, match="is a folder") as raised:
            pages.write(path, "report")
        assert raised.value.hint
    assert [one.name for one in tmp_path.iterdir()] == ["link"]


def test_what_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "loop", tmp_path / ("x" * 300), Path("/dev/null/x")):
        with pytest.raises(Prerequisite, match="cannot write"):
            pages.write(path, "report")


def test_what_is_open_is_never_replaced() -> None:
    """`-o /dev/fd/3 3>>log` adds to the log."""
    found = outlet(Path("/dev/null"))
    assert found.direct and found.path == Path("/dev/null")


def test_an_open_file_is_added_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("a") as file:
        pages.write(Path(f"/dev/fd/{file.fileno()}"), "report\n")
    assert log.read_text() == "before\nreport\n"
