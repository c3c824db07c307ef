"""What was asked of commits before.  Only full commit ids are worth remembering: what they name never changes."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def is_oid(revision: str) -> bool:
    """Whether a revision is a full object id, which git takes before any ref of that name."""
    return _OID.fullmatch(revision) is not None


class Memory(Generic[K, V]):
    """At most `most` answers, by what was asked.  Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """What is remembered."""
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def keep(self, key: K, value: V) -> None:
        """Remember; the one that was not asked for the longest is forgotten."""
        with self._lock:
            self._known[key] = value
            self._known.move_to_end(key)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
