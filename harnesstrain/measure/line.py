"""Cells in the order they were started.  Results arrive in any order and are taken in this one.

So what a run that stops early has recorded does not depend on how many rollouts run at once, nor on which is quicker.
"""

from __future__ import annotations

from collections import deque

from harnesstrain.core.records.base import Record
from harnesstrain.measure.plan import Wanted
from harnesstrain.rollout.bench import Finished


class Taken(Record):
    """One result, with the attempt it is of."""

    wanted: Wanted
    finished: Finished


class Line:
    """The cells that were started and whose results were not taken yet."""

    def __init__(self) -> None:
        self._cells: deque[tuple[str, int]] = deque()
        self._arrived: dict[tuple[str, int], Taken] = {}

    def start(self, wanted: Wanted) -> None:
        """A cell was started: it comes last.  A further attempt at the cell taken last keeps its place: first."""
        cell = (wanted.task, wanted.seed)
        if cell not in self._cells:
            self._cells.append(cell)

    def arrive(self, wanted: Wanted, finished: Finished) -> None:
        """A result came."""
        self._arrived[wanted.task, wanted.seed] = Taken(wanted=wanted, finished=finished)

    def take(self) -> Taken | None:
        """The first cell's result; None while it is still running."""
        return self._arrived.pop(self._cells[0]) if self._cells and self._cells[0] in self._arrived else None

    def leave(self) -> None:
        """The first cell is done: no further attempt at it follows."""
        self._cells.popleft()

    def rest(self) -> list[Taken]:
        """What arrived and was not taken, in order: the results behind a cell that will never have one."""
        found = [self._arrived.pop(cell) for cell in self._cells if cell in self._arrived]
        self._cells.clear()
        return found
