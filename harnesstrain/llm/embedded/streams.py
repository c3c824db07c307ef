"""Resident KV streams: which prompt prefixes a worker still holds, and how the next prompt starts from one.

One stream is live in the context; the others are kept as bytes, newest use last, within a memory bound.  What is kept
is always an aligned prefix of some *prompt*: whole chunks, evaluated as chunks, never a decoded token.  So a prompt
evaluated from a kept prefix gets the bits that a cold evaluation gives, and what is kept or dropped cannot be seen in
a reply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harnesstrain.llm.embedded.context import Context
from harnesstrain.llm.embedded.jobs import CHUNK
from harnesstrain.llm.embedded.sampler import Logits

Tokens = NDArray[np.int32]


@dataclass
class Stream:
    """One kept prefix."""

    key: int
    """Number of the request that evaluated it."""
    tokens: Tokens
    """A whole number of chunks."""
    data: NDArray[np.uint8] | None = None
    """Saved KV bytes; None while it is live and unsaved."""


@dataclass(frozen=True)
class Prefilled:
    """An evaluated prompt."""

    logits: Logits
    """The row after the last prompt token."""
    reused: int
    """Prompt tokens that were not evaluated again; a whole number of chunks."""


@dataclass
class Streams:
    """The streams of one context.  Not thread-safe."""

    context: Context
    bound: int
    """Bytes that saved streams may take together."""
    live: Stream = field(default_factory=lambda: Stream(0, np.empty(0, np.int32)))
    saved: list[Stream] = field(default_factory=list)
    """Saved streams that are not live, least recently used first."""
    dropped: list[int] = field(default_factory=list)
    """Keys of streams given up since `take_dropped` was last called."""

    def prefill(self, key: int, prompt: list[int], aborted: Callable[[], bool]) -> Prefilled | None:
        """Evaluate a prompt of at least one token, from the longest kept prefix.  None when `aborted` says so.

        Afterwards the prompt's whole chunks are the live stream.
        """
        tokens = np.asarray(prompt, dtype=np.int32)
        start = self._begin(tokens)
        logits: Logits | None = None
        for position in range(start, len(prompt), CHUNK):
            if aborted():
                self._now_live(key, tokens[:position])
                return None
            chunk = prompt[position : position + CHUNK]
            logits = self.context.decode(chunk, position, scored=position + len(chunk) == len(prompt))
        self._now_live(key, tokens[: len(prompt) // CHUNK * CHUNK])
        assert logits is not None
        return Prefilled(logits, start)

    def settle(self) -> None:
        """Forget what was decoded after the live stream's prompt chunks."""
        self.context.cut(len(self.live.tokens))

    def clear(self) -> None:
        """Give up every stream, the live one too."""
        self.dropped += [stream.key for stream in (*self.saved, self.live)]
        self.saved, self.live = [], Stream(0, self.live.tokens[:0])
        self.context.cut(0)

    def take_dropped(self) -> list[int]:
        """Keys of streams given up since the last call."""
        dropped, self.dropped = self.dropped, []
        return dropped

    def _begin(self, tokens: Tokens) -> int:
        """Make the best kept prefix live and cut the context to it; its length.  At least one token is left over."""
        best, reach = self.live, _shared(self.live.tokens, tokens)
        for stream in self.saved:
            shared = _shared(stream.tokens, tokens)
            if shared > reach:
                best, reach = stream, shared
        if best is not self.live:
            self._park()
            self.saved.remove(best)
            assert best.data is not None
            self.context.restore(best.data)
            self.live = best
        if reach < len(self.live.tokens):
            self._park()
        else:
            self.dropped.append(self.live.key)
        self.context.cut(reach)
        self.live = Stream(0, tokens[:0])
        self._trim()
        return reach

    def _now_live(self, key: int, tokens: Tokens) -> None:
        self.live = Stream(key, tokens)

    def _park(self) -> None:
        """Keep the live stream as bytes, unless another stream holds all of it."""
        stream = self.live
        if len(stream.tokens) == 0:
            return
        if any(_shared(other.tokens, stream.tokens, whole=True) == len(stream.tokens) for other in self.saved):
            self.dropped.append(stream.key)
            return
        if stream.data is None:
            stream.data = self.context.save()
        self.saved.append(stream)

    def _trim(self) -> None:
        """Give up the least recently used streams beyond the bound."""
        total = sum(stream.data.size for stream in self.saved if stream.data is not None)
        while self.saved and total > self.bound:
            stream = self.saved.pop(0)
            total -= stream.data.size if stream.data is not None else 0
            self.dropped.append(stream.key)


def _shared(kept: Tokens, prompt: Tokens, whole: bool = False) -> int:
    """Tokens of `kept` that `prompt` begins with, as whole chunks; one prompt token is left over unless `whole`."""
    size = min(len(kept), len(prompt) if whole else len(prompt) - 1)
    if size <= 0:
        return 0
    differs = np.flatnonzero(kept[:size] != prompt[:size])
    return (int(differs[0]) if differs.size else size) // CHUNK * CHUNK
