"""A cache.db that cannot be used stops no work."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import HtError, StoreCorrupt
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import Store
from tests.store.test_disk_full import fill, small  # noqa: F401  (a fixture)

KEY = "0" * 64
REPLY = Reply(content="again")


def recorded(folder: Path) -> Path:
    """A cache.db with entries on several pages."""
    with Store.open(folder, create=True) as store:
        for number in range(400):
            store.llm_cache().put(f"{number:064x}", Reply(content=os.urandom(400).hex()))
    return folder / "cache.db"


def cut(path: Path) -> None:
    """Shorter than a page."""
    os.truncate(path, 5000)


def flip(path: Path) -> None:
    """The page with the schema."""
    data = bytearray(path.read_bytes())
    data[100:8192] = b"\xff" * 8092
    path.write_bytes(data)


def text(path: Path) -> None:
    """Something else."""
    path.write_text("notes\n" * 1000)


def folder_there(path: Path) -> None:
    """A folder with a file in it."""
    path.unlink()
    path.mkdir()
    (path / "mine").write_text("mine")


@pytest.mark.parametrize("damage", [cut, flip, text, folder_there])
def test_a_file_that_is_no_cache_is_put_aside_and_made_anew(
    folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = recorded(folder)
    damage(path)
    with caplog.at_level(logging.WARNING), Store.open(folder) as store:
        assert store.llm_cache().get(KEY) is None
        store.llm_cache().put(KEY, REPLY)
        assert store.step_cache().get(KEY) is None
    with Store.open(folder) as store:
        assert store.llm_cache().get(KEY) == REPLY
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "made anew" in said[0] and "cache.db.damaged" in said[0]
    aside = folder / "cache.db.damaged"
    assert aside.is_dir() == (damage is folder_there)
    damage(path)
    with Store.open(folder) as store:
        store.llm_cache().put(KEY, REPLY)
        assert store.llm_cache().get(KEY) == REPLY


@pytest.mark.parametrize("damage", [cut, flip, text, folder_there])
def test_fsck_says_that_it_will_be_made_anew(folder: Path, damage: Callable[[Path], None]) -> None:
    path = recorded(folder)
    with Store.open(folder) as store:
        assert store.fsck() == []
    damage(path)
    with Store.open(folder) as store:
        (found,) = store.fsck()
        assert (found.kind, found.subject) == ("corrupt", "cache.db")
        assert "\n" not in found.problem and found.problem.endswith("puts it aside and makes it anew")
        assert store.fsck(deep=False) == []
    assert not path.with_name("cache.db.damaged").exists()


def test_fsck_finds_a_page_that_is_read_late(folder: Path) -> None:
    path = recorded(folder)
    data = bytearray(path.read_bytes())
    for offset in range(8 * 8192, len(data), 8192):
        data[offset : offset + 300] = b"\xff" * 300
    path.write_bytes(data)
    with Store.open(folder) as store:
        (found,) = store.fsck()
        assert found.problem.endswith("what it cannot answer is made again; cache.db may be deleted")
    path.unlink()
    with Store.open(folder) as store:
        assert store.fsck() == []
    assert not path.exists()


def test_on_a_full_disk_work_goes_on_without_a_cache(
    small: Path,  # noqa: F811
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = small / ".ht"
    Store.open(folder, create=True).close()
    with Store.open(folder) as store, caplog.at_level(logging.WARNING):
        store.holders()
        fill(small)
        cache = store.llm_cache()
        cache.put(KEY, REPLY)
        assert cache.get(KEY) is None
        assert store.verify_cache().get(KEY) is None
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "going on without it" in said[0]


def test_every_cache_command_names_the_way_out_of_a_damaged_one(folder: Path, tmp_path: Path) -> None:
    path = recorded(folder)
    data = bytearray(path.read_bytes())
    for offset in range(4 * 8192, len(data), 8192):
        data[offset : offset + 300] = b"\xff" * 300
    path.write_bytes(data)
    acts: list[Callable[[Store], object]] = [
        lambda store: store.cache_export(tmp_path / "out"),
        lambda store: store.cache_gc(0),
    ]
    for act in acts:
        with Store.open(folder) as store, pytest.raises(StoreCorrupt) as caught:
            act(store)
        assert f"delete {path}" in str(caught.value.hint)
    text(path)
    with Store.open(folder) as store, pytest.raises(HtError) as said:
        store.cache_stats()
    assert f"delete {path}" in str(said.value.hint)
