"""Entries that are read before they are asked for: fewer look-ups, never another answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.ports import LlmCache
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import Store
from harnesstrain.store.ahead import BLOCK, HELD, LARGEST
from harnesstrain.store.cachefile import CacheFile
from harnesstrain.store.caches import Cache

MANY = 20 * BLOCK


def key(number: int) -> str:
    """A request key."""
    return f"{number * 7919 % 1_000_003:064x}"


def reply(number: int) -> Reply:
    """What is recorded for it."""
    return Reply(content=f"reply {number}")


def held(cache: LlmCache) -> int:
    """Rows that wait to be asked for."""
    assert isinstance(cache, Cache)
    return len(cache._ahead._rows)


@pytest.fixture
def filled(folder: Path) -> Path:
    """A store whose llm cache holds MANY replies, in the order of their numbers."""
    with Store.open(folder, create=True) as store:
        for number in range(MANY):
            store.llm_cache().put(key(number), reply(number))
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Look-ups from now on: `one` row, or those `through` a block."""
    seen: list[str] = []

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(self: CacheFile, statement: str, values: tuple[Any, ...]) -> Any:
            seen.append(name)
            return real(self, statement, values)

        return ask

    monkeypatch.setattr(CacheFile, "look_up", counting("one", CacheFile.look_up))
    monkeypatch.setattr(CacheFile, "look_through", counting("through", CacheFile.look_through))
    return seen


def test_what_is_asked_in_order_is_read_in_blocks(filled: Path, asked: list[str]) -> None:
    with Store.open(filled) as store:
        assert [store.llm_cache().get(key(number)) for number in range(MANY)] == [reply(n) for n in range(MANY)]
        assert len(asked) <= 2 * (MANY // BLOCK + 2)
        found = store.cache_stats()[0]
        assert (found.hits, found.misses, found.broken) == (MANY, 0, 0)


def test_what_is_asked_here_and_there_is_not_read_ahead(filled: Path, asked: list[str]) -> None:
    with Store.open(filled) as store:
        for number in range(0, MANY, 3 * BLOCK):
            assert store.llm_cache().get(key(number)) == reply(number)
    assert "through" not in asked


def test_every_order_gives_the_same_answers(filled: Path) -> None:
    with Store.open(filled) as store:
        cache = store.llm_cache()
        for number in [*range(MANY - 1, -1, -1), *range(0, MANY, 2), *range(1, MANY, 2), *range(MANY)]:
            assert cache.get(key(number)) == reply(number)
            assert cache.get(key(MANY + number)) is None
            assert held(cache) <= HELD


def test_a_row_that_is_damaged_is_a_miss_and_goes(filled: Path) -> None:
    with closing(sqlite3.connect(filled / "cache.db")) as connection, connection:
        connection.execute("UPDATE llm SET value = zeroblob(length(value)) WHERE seq % 5 = 0")
        connection.execute("UPDATE llm SET seal = 'text', value = 17 WHERE seq % 7 = 0")
    with Store.open(filled) as store:
        cache = store.llm_cache()
        for number in range(MANY):
            damaged = (number + 1) % 5 == 0 or (number + 1) % 7 == 0
            assert cache.get(key(number)) == (None if damaged else reply(number))
            cache.put(key(number), Reply(content="again"))
            assert cache.get(key(number)) == (Reply(content="again") if damaged else reply(number))


def test_entries_of_another_epoch_are_not_read(filled: Path) -> None:
    with Store.open(filled) as store:
        for number in range(BLOCK // 2):
            assert store.llm_cache().get(key(number)) == reply(number)
        store.cache_bump(["llm"])
        assert all(store.llm_cache().get(key(number)) is None for number in range(BLOCK))


def test_what_was_removed_here_is_gone(filled: Path) -> None:
    with Store.open(filled) as store:
        for number in range(BLOCK // 2):
            assert store.llm_cache().get(key(number)) == reply(number)
        store.cache_gc(0)
        assert all(store.llm_cache().get(key(number)) is None for number in range(BLOCK))


def test_large_values_are_not_held(folder: Path) -> None:
    with Store.open(folder, create=True) as store:
        for number in range(BLOCK):
            big = "".join(chr(33 + (number * i * i) % 90) for i in range(4 * LARGEST))
            store.llm_cache().put(key(number), Reply(content=big[: 4 * LARGEST], token_ids=tuple(range(20_000))))
    with Store.open(folder) as store:
        cache = store.llm_cache()
        for number in range(4):
            assert cache.get(key(number)) is not None
        assert held(cache) == 0
