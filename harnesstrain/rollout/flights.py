"""One making of a value at a time: who asks for a value that is being made waits, and takes it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Flown(Generic[T]):
    """A value, and who made it."""

    value: T | None
    """None: the asking thread's own attempt gave none."""
    shared: bool
    """Another thread made it meanwhile."""


class _Flight:
    """A value under way."""

    __slots__ = ("landed", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.landed: threading.Event | None = None
        """Made by the first who waits: mostly nobody does."""


class Flights:
    """Values under way, by key.  Thread-safe."""

    def __init__(self) -> None:
        self._under_way: dict[str, _Flight] = {}
        self._lock = threading.Lock()

    def once(self, key: str, make: Callable[[], T | None]) -> Flown[T]:
        """The value of `key`: made by `make`, unless another thread is making it.

        An attempt that raises or gives None serves nobody else: who waited for it makes its own.
        """
        while True:
            mine = _Flight()
            with self._lock:
                leader = self._under_way.setdefault(key, mine)
                if leader is not mine:
                    landed = leader.landed = leader.landed or threading.Event()
            if leader is mine:
                return Flown(self._lead(key, make, mine), shared=False)
            landed.wait()
            if leader.value is not None:
                return Flown(leader.value, shared=True)

    def _lead(self, key: str, make: Callable[[], T | None], mine: _Flight) -> T | None:
        value: T | None = None
        try:
            value = mine.value = make()
        finally:
            with self._lock:
                del self._under_way[key]
            if mine.landed is not None:
                mine.landed.set()
        return value
