"""What is happening, as data.  Rooms emit events; observers (a progress bar, a JSON-lines file) watch.

An observer cannot change anything, and one that raises is dropped with a log line.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

log = logging.getLogger(__name__)


class Event(BaseModel):
    """One thing that happened."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    """Dotted name: `run.started`, `rollout.finished`, `rollout.retried`, `run.finished`, `warning` …"""
    message: str = ""
    """One sentence for people; may be empty."""
    data: dict[str, Any] = Field(default_factory=dict)
    """JSON-able facts: ids, counts."""
    at: float = Field(default_factory=time.time)
    """Wall clock, seconds since 1970.  For display only; never digested."""


class Observer(Protocol):
    """Anything that watches events."""

    def on(self, event: Event) -> None:
        """Take note of `event`.  Called from several threads, one at a time."""


class Bus:
    """Hands each event to every observer, one event at a time."""

    def __init__(self, *observers: Observer) -> None:
        self._observers: list[Observer] = list(observers)
        self._lock = threading.Lock()

    def watch(self, observer: Observer) -> Callable[[], None]:
        """Add an observer; the returned function removes it."""
        with self._lock:
            self._observers.append(observer)
        return lambda: self._drop(observer)

    def emit(self, kind: str, message: str = "", **data: Any) -> None:
        """Tell every observer."""
        event = Event(kind=kind, message=message, data=data)
        with self._lock:
            for observer in list(self._observers):
                try:
                    observer.on(event)
                except Exception:
                    log.exception("observer %r dropped", observer)
                    self._observers.remove(observer)

    def _drop(self, observer: Observer) -> None:
        with self._lock:
            if observer in self._observers:
                self._observers.remove(observer)
