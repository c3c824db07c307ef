"""A model that remembers: replies come from a cache where it has them; concurrent identical misses make one call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harnesstrain.core.errors import HtError
from harnesstrain.core.ports import LlmCache
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply, Usage
from harnesstrain.core.records.rollout import Source
from harnesstrain.llm.base import Answer, Model
from harnesstrain.llm.requests import conversation_head, exact, request_key

COUNT = "count"
"""What the key of a token count begins with, and how its entry says that it is no reply."""

Missed = Callable[[], None] | None
Whole = Callable[[], LlmRequest] | None


class CacheCount(Record):
    """What a cached model did so far."""

    hits: int = 0
    """Served from the cache."""
    live: int = 0
    """Calls made to the model, failed ones included."""
    coalesced: int = 0
    """Served by another request's call that was under way."""


class _Call:
    """A request under way."""

    __slots__ = ("ended", "error", "reply")

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self.error: BaseException | None = None
        self.ended: threading.Event | None = None
        """Made by the first who waits: mostly nobody does."""


class CachedModel:
    """Wraps a model.  With no cache, or with neither reading nor writing, every request is a live call."""

    def __init__(
        self, model: Model, cache: LlmCache | None, read: bool = True, write: bool = True, sample: int | None = None
    ) -> None:
        """`sample`: default number of the trial; joins the key of an endpoint that is not deterministic."""
        self._model = model
        self._cache = cache
        self._read = read
        self._write = write
        self._sample = sample
        self._lock = threading.Lock()
        self._under_way: dict[str, _Call] = {}
        self._hits = self._live = self._coalesced = 0
        self._known: tuple[str, bool] | None = None

    def endpoint(self) -> Endpoint:
        """What the wrapped model is."""
        return self._model.endpoint()

    def count_tokens(
        self,
        messages: Sequence[Mapping[str, Any]] | Callable[[], Sequence[Mapping[str, Any]]],
        *,
        head: str | None = None,
    ) -> int:
        """Prompt tokens, as the wrapped model counts them.  `head`: rolling digest of the messages, where it is known.

        With a digest the messages may be given as what lists them: nobody reads them where the count is known.
        A count is kept as replies are, under a key of its own, so that a replay counts nothing again.
        """
        if self._cache is None:
            return self._model.count_tokens(messages() if callable(messages) else messages)
        if head is None:
            messages = messages() if callable(messages) else messages
            head = conversation_head(messages)
        fingerprint, _ = self._identified()
        key = exact([COUNT, fingerprint, head])
        recorded = self._cache.get(key) if self._read else None
        if recorded is not None:
            return recorded.usage.prompt
        count = self._model.count_tokens(messages() if callable(messages) else messages)
        if self._write:
            self._cache.put(key, Reply(finish_reason=COUNT, usage=Usage(prompt=count)))
        return count

    def close(self) -> None:
        """Close the wrapped model.  The cache stays open: it is the caller's."""
        self._model.close()

    def counts(self) -> CacheCount:
        """Hits, live calls and coalesced requests so far."""
        with self._lock:
            return CacheCount(hits=self._hits, live=self._live, coalesced=self._coalesced)

    def key(self, request: LlmRequest, *, head: str | None = None, sample: int | None = None) -> str:
        """The cache key of `request`.  `head`: rolling digest of its messages, where the caller has it."""
        fingerprint, deterministic = self._identified()
        trial = None if deterministic else (self._sample if sample is None else sample)
        return request_key(fingerprint, request, head=head, sample=trial)

    def complete(self, request: LlmRequest) -> Reply:
        """One reply, from the cache where it has one."""
        return self.complete_with_source(request).reply

    def complete_with_source(
        self,
        request: LlmRequest,
        *,
        head: str | None = None,
        sample: int | None = None,
        missed: Missed = None,
        whole: Whole = None,
    ) -> Answer:
        """One reply and whether it cost a live call.  Its duration is the recorded one, also on a hit.

        `whole` makes the request for a live call; `request` may then lack its messages, for which `head` stands.

        A request that waits for an identical one under way counts as served from the cache, and shares its failure.
        `missed` is called, quickly, just before a live call.
        """
        key = self.key(request, head=head, sample=sample)
        if self._cache is None or not (self._read or self._write):
            return Answer(reply=self._call(request, missed, whole), source=Source.LIVE, key=key)
        while True:
            mine = _Call()
            with self._lock:
                leader = self._under_way.setdefault(key, mine)
                if leader is not mine:
                    leader.ended = leader.ended or threading.Event()
            if leader is mine:
                return self._lead(key, request, mine, missed, whole)
            reply = _shared(leader)
            if reply is not None:
                with self._lock:
                    self._coalesced += 1
                return Answer(reply=reply, source=Source.CACHE, key=key)

    def _lead(self, key: str, request: LlmRequest, mine: _Call, missed: Missed, whole: Whole) -> Answer:
        """Answer `request` and everybody who waits for the same one."""
        try:
            answer = self._look_or_call(key, request, missed, whole)
            mine.reply = answer.reply
        except BaseException as error:
            mine.error = error
            raise
        finally:
            with self._lock:
                del self._under_way[key]
            if mine.ended is not None:
                mine.ended.set()
        return answer

    def _look_or_call(self, key: str, request: LlmRequest, missed: Missed, whole: Whole) -> Answer:
        if self._cache is not None and self._read:
            recorded = self._cache.get(key)
            if recorded is not None:
                with self._lock:
                    self._hits += 1
                return Answer(reply=recorded, source=Source.CACHE, key=key)
        reply = self._call(request, missed, whole)
        if self._cache is not None and self._write and reply.finish_reason != "abort":
            self._cache.put(key, reply)
        return Answer(reply=reply, source=Source.LIVE, key=key)

    def _call(self, request: LlmRequest, missed: Missed, whole: Whole) -> Reply:
        if missed is not None:
            missed()
        request = request if whole is None else whole()
        with self._lock:
            self._live += 1
        return self._model.complete(request)

    def _identified(self) -> tuple[str, bool]:
        """Fingerprint of the endpoint, and whether it is deterministic; asked once."""
        if self._known is None:
            endpoint = self._model.endpoint()
            self._known = (endpoint.fingerprint, endpoint.deterministic)
        return self._known


def _shared(leader: _Call) -> Reply | None:
    """The leader's reply; None when it was interrupted, so that the waiting request makes its own attempt.

    A typed failure is shared as a new object: one exception must not be raised by two threads.
    """
    assert leader.ended is not None  # who waits made it
    leader.ended.wait()
    error = leader.error
    if leader.reply is not None:
        return leader.reply
    if isinstance(error, HtError):
        raise type(error)(error.message, hint=error.hint, **error.extra) from None
    return None
