"""Says now and then that an endpoint is waited for, so that nobody takes patience for silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from harnesstrain.core.errors import LlmFailure

AFTER = 3.0
"""Seconds of a call after which its failed attempts are worth a word."""
EVERY = 30.0
"""Seconds between two words, at least, however many calls wait."""


class Waiting:
    """What is said of one endpoint.  Thread-safe."""

    def __init__(self, tell: Callable[[str], None] | None, *, after: float = AFTER, every: float = EVERY) -> None:
        """`tell` gets one line; None: nothing is said.  `after`, `every`: seconds."""
        self._tell = tell
        self._after, self._every = after, every
        self._lock = threading.Lock()
        self._last: float | None = None

    def failed(self, failure: LlmFailure, began: float) -> None:
        """An attempt failed that is made again.  `began`: when its call did, by the monotonic clock."""
        now = time.monotonic()
        if self._tell is None or now - began < self._after:
            return
        with self._lock:
            if self._last is not None and now - self._last < self._every:
                return
            self._last = now
        self._tell(f"waiting for the model: {failure.message}")
