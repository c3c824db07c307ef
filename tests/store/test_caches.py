"""cache.db: it may forget, it never answers wrongly."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core.errors import StoreCorrupt, UsageError
from harnesstrain.core.records.llm import Reply, ToolCall, Usage
from harnesstrain.store import Store, pending
from harnesstrain.store.base import CacheStats

REPLY = Reply(
    content="é\x00 done",
    reasoning="because",
    tool_calls=(ToolCall(id="1", name="run", arguments='{"a": '),),
    usage=Usage(prompt=10, completion=3),
    token_ids=(1, 2, 3),
    logprobs=(-0.1, -0.25, float("-inf")),
    duration=0.1 + 0.2,
)


class LaterReply(Reply):
    """A reply as a later version records it."""

    unheard_of: int = 1


def key(number: int) -> str:
    """A request key."""
    return f"{number:064x}"


def stats(store: Store) -> CacheStats:
    """Statistics of the llm cache; everything that waits is written first."""
    return store.cache_stats()[0]


def test_a_reply_comes_back_exactly_and_the_first_one_stays(store: Store, folder: Path) -> None:
    cache = store.llm_cache()
    assert cache.get(key(1)) is None
    cache.put(key(1), REPLY)
    cache.put(key(1), Reply(content="later"))
    assert cache.get(key(1)) == REPLY
    store.close()
    with Store.open(folder) as again:
        assert again.llm_cache().get(key(1)) == REPLY
        found = stats(again)
        assert (found.entries, found.hits, found.misses, found.broken, found.rate) == (1, 2, 1, 0, 2 / 3)


def edit(folder: Path, statement: str) -> None:
    """Change cache.db behind the store's back."""
    with closing(sqlite3.connect(folder / "cache.db")) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE llm SET value = substr(value, 1, length(value) - 3)",
        "UPDATE llm SET value = zeroblob(length(value))",
        "UPDATE llm SET value = x'' ",
        "UPDATE llm SET seal = zeroblob(16)",
        "UPDATE llm SET value = (SELECT value FROM llm WHERE seq = 2), seal = (SELECT seal FROM llm WHERE seq = 2)",
    ],
)
def test_a_broken_entry_is_a_miss_and_is_made_again(store: Store, folder: Path, statement: str) -> None:
    cache = store.llm_cache()
    cache.put(key(1), REPLY)
    cache.put(key(2), Reply(content="another"))
    stats(store)
    edit(folder, f"{statement} WHERE seq = 1")
    assert cache.get(key(1)) is None
    cache.put(key(1), REPLY)
    assert cache.get(key(1)) == REPLY and cache.get(key(2)) == Reply(content="another")
    assert stats(store).broken == 1


def test_a_reply_of_another_version_is_a_miss(store: Store) -> None:
    cache = store.llm_cache()
    cache.put(key(1), LaterReply(content="x"))
    assert cache.get(key(1)) is None
    cache.put(key(1), REPLY)
    assert cache.get(key(1)) == REPLY


def test_damaged_pages_are_misses_said_once(store: Store, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = store.llm_cache()
    for number in range(300):
        cache.put(key(number), Reply(content=f"{number}" * 50))
    store.close()
    path = folder / "cache.db"
    whole = bytearray(path.read_bytes())
    for offset in range(4 * 8192, len(whole), 8192):  # behind the pages that say what is in the file
        whole[offset : offset + 200] = b"\xff" * 200
    path.write_bytes(whole)
    with caplog.at_level(logging.WARNING), Store.open(folder) as again:
        cache = again.llm_cache()
        for number in range(300):
            assert cache.get(key(number)) in (None, Reply(content=f"{number}" * 50))
        cache.put(key(1), REPLY)
    assert len([record for record in caplog.records if "going on without it" in record.message]) == 1


def test_a_file_that_is_no_cache_is_said_with_the_way_out(store: Store, folder: Path) -> None:
    (folder / "cache.db").write_bytes(b"garbage " * 1000)
    with pytest.raises(StoreCorrupt) as caught:
        store.cache_stats()
    assert "delete" in str(caught.value.hint)
    (folder / "cache.db").unlink()
    store.llm_cache().put(key(1), REPLY)


def test_a_cache_of_another_layout_is_emptied(store: Store, folder: Path) -> None:
    store.llm_cache().put(key(1), REPLY)
    store.close()
    edit(folder, "PRAGMA user_version = 99")
    with Store.open(folder) as again:
        assert again.llm_cache().get(key(1)) is None
        assert stats(again).entries == 0


def test_deleting_the_cache_loses_no_record(store: Store, folder: Path) -> None:
    store.llm_cache().put(key(1), REPLY)
    store.close()
    for path in folder.glob("cache.db*"):
        path.unlink()
    with Store.open(folder) as again:
        assert again.llm_cache().get(key(1)) is None


def test_shrinking_keeps_what_was_used_last_and_gives_space_back(store: Store, folder: Path) -> None:
    cache = store.llm_cache()
    for number in range(200):
        cache.put(key(number), Reply(content=f"{number} " * 3, token_ids=tuple(range(number, number + 900))))
    before = stats(store)
    cache.get(key(0))
    store.close()
    size = (folder / "cache.db").stat().st_size
    with Store.open(folder) as again:
        removed = again.cache_gc(before.bytes // 2)[0].entries
        after = stats(again)
        assert after.entries == 200 - removed and after.bytes <= before.bytes // 2 < before.bytes
        assert again.llm_cache().get(key(0)) is not None and again.llm_cache().get(key(1)) is None
        with pytest.raises(UsageError):
            again.cache_gc(-1)
        again.cache_gc(0)
        assert stats(again).entries == 0
    assert (folder / "cache.db").stat().st_size < size / 2


def test_many_threads_share_it(store: Store) -> None:
    cache = store.llm_cache()
    wrong: list[int] = []

    def work(offset: int) -> None:
        for number in range(60):
            name = (number * 7 + offset) % 60
            found = cache.get(key(name))
            if found is None:
                cache.put(key(name), Reply(content=str(name)))
            elif found.content != str(name):
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = stats(store)
    assert not wrong and found.entries == 60 and found.hits + found.misses == 16 * 60


def test_statistics_are_written_without_being_asked(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "FLUSH", 10)
    cache = store.llm_cache()
    for number in range(10):
        cache.get(key(number))
    with Store.open(folder) as other:
        assert stats(other).misses == 10
