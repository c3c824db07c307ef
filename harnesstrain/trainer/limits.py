"""When a loop stops by itself: after so much time, so many tokens, or because somebody asked."""

from __future__ import annotations

import time

from harnesstrain.core.errors import Incomplete
from harnesstrain.core.ports import StopSignal


class Limits:
    """A stop signal with limits of its own.  Handed to the stages, so a run drains too."""

    def __init__(self, stop: StopSignal, *, max_time: float | None = None, max_tokens: int | None = None) -> None:
        """`max_time`: seconds of wall clock from now.  `max_tokens`: prompt and completion tokens from now."""
        self._stop = stop
        self._deadline = None if max_time is None else time.monotonic() + max_time
        self._tokens_left = max_tokens

    def spend(self, tokens: int) -> None:
        """Count tokens."""
        if self._tokens_left is not None:
            self._tokens_left -= tokens

    @property
    def tokens_left(self) -> int | None:
        """Tokens that may still be spent; None: no limit."""
        return None if self._tokens_left is None else max(0, self._tokens_left)

    def is_set(self) -> bool:
        """Whether work should stop."""
        return self.why() is not None

    def why(self) -> str | None:
        """Why work should stop, in words; None when it should not."""
        if self._stop.is_set():
            return "a stop was asked for"
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return "the time limit is reached"
        if self._tokens_left is not None and self._tokens_left <= 0:
            return "the token limit is reached"
        return None

    def check(self) -> None:
        """Raise Incomplete when work should stop."""
        why = self.why()
        if why is not None:
            msg = f"stopped: {why}"
            raise Incomplete(msg, hint="the same command goes on from here")
