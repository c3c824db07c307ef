"""What is under way, told beside the run's lease: `ht watch` reads it from another process.

Starts and ends come as events.  They are written by a thread, together, at most once in `EVERY` seconds, so that a run
served from caches pays nothing for them.  A kill leaves the last word beside a lease whose holder is gone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harnesstrain.core.errors import HtError
from harnesstrain.core.events import Bus, Event
from harnesstrain.core.records.flight import Flight, UnderWay

log = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds between two writes, at least."""
ENDS = ("rollout.finished", "rollout.retried")


class Telling:
    """An observer that keeps the flights of one run, and a thread that writes them down."""

    def __init__(self, tell: Callable[[str], None], run: str) -> None:
        self._tell = tell
        self._run = run
        self._flights: dict[tuple[str, int], Flight] = {}
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._write, name="under way", daemon=True)

    def on(self, event: Event) -> None:
        """Note a start or an end."""
        if event.kind != "rollout.started" and event.kind not in ENDS or event.data["run"] != self._run:
            return
        task, seed = event.data["task"], event.data["seed"]
        with self._lock:
            if event.kind in ENDS:
                self._flights.pop((task, seed), None)
            else:
                attempt = event.data["attempt"]
                self._flights[task, seed] = Flight(task=task, seed=seed, attempt=attempt, since=event.at)
                if self._thread.ident is None:
                    self._thread.start()
        self._changed.set()

    def close(self) -> None:
        """Stop writing."""
        self._closed.set()
        self._changed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _write(self) -> None:
        while True:
            self._changed.wait()
            if self._closed.is_set():
                return
            self._changed.clear()
            with self._lock:
                flights = tuple(self._flights.values())
            try:
                self._tell(UnderWay(flights=flights).model_dump_json())
            except HtError as error:  # the run does not depend on it
                log.warning("what is under way could not be told: %s", error.message)
            if self._closed.wait(EVERY):
                return


@contextmanager
def telling(bus: Bus, tell: Callable[[str], None], run: str) -> Iterator[None]:
    """Tell what is under way of `run` while the block runs."""
    made = Telling(tell, run)
    stop = bus.watch(made)
    try:
        yield
    finally:
        stop()
        made.close()
