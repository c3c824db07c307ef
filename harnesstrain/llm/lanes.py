"""First come, first served: a fixed number of threads that work through a queue.

The threads are daemons: a model that cannot be interrupted never keeps a process alive.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from harnesstrain.core.errors import RateLimited, TransportFailure
from harnesstrain.core.ports import StopSignal

T = TypeVar("T")


@dataclass
class Job(Generic[T]):
    """One piece of work, waiting, running or done."""

    work: Callable[[StopSignal], T]
    done: Future[T] = field(default_factory=Future)
    stop: threading.Event = field(default_factory=threading.Event)

    def give_up(self) -> None:
        """Nobody wants the result any more: a waiting job is skipped, a running one may end early."""
        self.stop.set()


class Lanes:
    """`width` jobs run at once, in the order in which they came; at most `max_waiting` wait."""

    def __init__(self, width: int, *, max_waiting: int, name: str) -> None:
        self.width = width
        self._max_waiting = max_waiting
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._waiting: set[int] = set()
        self._running: dict[int, Job[Any]] = {}
        self._crowds = [0] * width
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True) for index in range(width)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Jobs that wait."""
        with self._lock:
            return len(self._waiting)

    @property
    def running(self) -> int:
        """Jobs that run, abandoned ones included."""
        with self._lock:
            return len(self._running)

    @property
    def crowds(self) -> tuple[int, ...]:
        """Jobs so far that began as the n-th at once, for n = 1, 2, … `width`."""
        with self._lock:
            return tuple(self._crowds)

    def submit(self, work: Callable[[StopSignal], T]) -> Job[T]:
        """Queue `work`.  Raises RateLimited when too many wait, TransportFailure after `close`."""
        job = Job(work)
        with self._lock:
            if self._closed:
                raise TransportFailure("the server is shutting down")
            if len(self._waiting) >= self._max_waiting:
                raise RateLimited(f"{len(self._waiting)} requests wait already")
            self._waiting.add(id(job))
            self._queue.put(job)
        return job

    def narrow(self, width: int) -> None:
        """From now on at most `width` jobs run at once, and never more than there are threads."""
        with self._room:
            self.width = max(1, min(width, len(self._threads)))
            self._room.notify_all()

    def close(self, timeout: float = 2.0) -> None:
        """Give up everything that waits or runs.  Waits up to `timeout` seconds for the running work to notice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for job in self._running.values():
                job.give_up()
            self._room.notify_all()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout / max(1, len(self._threads)))

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            with self._room:
                while len(self._running) >= self.width and not self._closed:
                    self._room.wait()
                self._waiting.discard(id(job))
                if self._closed:
                    job.give_up()
                self._running[id(job)] = job
                self._crowds[len(self._running) - 1] += 1
            try:
                self._do(job)
            finally:
                with self._room:
                    del self._running[id(job)]
                    self._room.notify()

    def _do(self, job: Job[Any]) -> None:
        if not job.done.set_running_or_notify_cancel():
            return
        if job.stop.is_set():
            job.done.set_exception(TransportFailure("the request was given up before it ran"))
            return
        try:
            result = job.work(job.stop)
        except BaseException as error:
            job.done.set_exception(error)
        else:
            job.done.set_result(result)
