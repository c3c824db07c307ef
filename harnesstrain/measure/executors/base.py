"""The protocol of an executor: the registry group `executors`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from harnesstrain.rollout.bench import Cell, Finished


class Executor(Protocol):
    """Executes cells, some at once.  Constructed with `jobs`."""

    def submit(self, work: Callable[[Cell], Finished], cell: Cell) -> Future[Finished]:
        """Start `work(cell)` as soon as there is room."""

    def close(self) -> None:
        """Wait for what runs, start nothing more."""
