"""Threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from harnesstrain.rollout.bench import Cell, Finished


class LocalExecutor:
    """At most `jobs` cells at once, in the order submitted."""

    def __init__(self, jobs: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="rollout")

    def submit(self, work: Callable[[Cell], Finished], cell: Cell) -> Future[Finished]:
        """Start `work(cell)` as soon as a thread is free."""
        return self._pool.submit(work, cell)

    def close(self) -> None:
        """Wait for running cells; drop those that have not started."""
        self._pool.shutdown(wait=True, cancel_futures=True)
