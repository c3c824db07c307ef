"""Rows read before they are asked for: recordings are asked for in the order in which they were made.

A file's rows are taken in blocks by their numbers.  The second look-up that ends in a block, or the first behind one
that was asked in, reads the rest of the block at once.  What is served from here was in the file when it was read:
entries are never changed, and one that was removed since is as good as it was.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from contextlib import suppress
from typing import Any

from harnesstrain.store.cachefile import CacheFile

BLOCK = 16
"""Rows of a block."""
HELD = 512
"""Rows that are held; the oldest are dropped."""
LARGEST = 16_384
"""Bytes of a value that is read ahead."""
RECENT = 64
"""Blocks that are remembered."""

Place = tuple[int, bytes]
"""Epoch and key."""


class Ahead:
    """Rows of one cache that may be asked for soon.  Thread-safe: two threads at worst read the same rows."""

    def __init__(self, name: str, file: CacheFile) -> None:
        self._file = file
        self._select = (
            f"SELECT epoch, key, seq, seal, value FROM {name} "
            f"WHERE seq > ? AND seq < ? AND epoch = ? AND length(value) <= {LARGEST}"
        )
        self._rows: OrderedDict[Place, tuple[Any, ...]] = OrderedDict()
        self._blocks: deque[int] = deque(maxlen=RECENT)

    def take(self, place: Place) -> tuple[Any, ...] | None:
        """The row (seq, seal, value) of a place, once."""
        return self._rows.pop(place, None)

    def found(self, epoch: int, seq: int) -> None:
        """A look-up ended at `seq`: read on, if the one before ended nearby.  Raises HtError."""
        block = seq // BLOCK
        near = block in self._blocks or block - 1 in self._blocks
        if block not in self._blocks:
            self._blocks.append(block)
        if not near:
            return
        for row in self._file.look_through(self._select, (seq, (block + 1) * BLOCK, epoch)):
            self._rows[row[:2]] = row[2:]
        while len(self._rows) > HELD:
            with suppress(KeyError):
                self._rows.popitem(last=False)

    def forget(self) -> None:
        """Drop everything."""
        self._rows.clear()
