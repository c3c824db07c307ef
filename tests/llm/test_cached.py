"""The cached model: hits, misses, coalescing, and where a reply came from."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harnesstrain.core.errors import RateLimited
from harnesstrain.core.records.llm import LlmRequest, Reply
from harnesstrain.core.records.rollout import Source
from harnesstrain.llm.cached import CacheCount, CachedModel
from harnesstrain.llm.requests import conversation_head
from harnesstrain.llm.scripted import ScriptedModel, Settings


class Memory:
    """An LlmCache in a dict."""

    def __init__(self) -> None:
        self.kept: dict[str, Reply] = {}
        self.gets = 0

    def get(self, key: str) -> Reply | None:
        self.gets += 1
        return self.kept.get(key)

    def put(self, key: str, reply: Reply) -> None:
        self.kept.setdefault(key, reply)


def ask(text: str = "hello") -> LlmRequest:
    return LlmRequest(messages=({"role": "user", "content": text},))


def scripted(**settings: Any) -> ScriptedModel:
    return ScriptedModel([{"reply": "hi", "duration": 12.5}], Settings(**settings))


def test_the_second_time_is_a_hit_with_the_recorded_duration() -> None:
    live, cache = scripted(), Memory()
    model = CachedModel(live, cache)
    first, second = model.complete_with_source(ask()), model.complete_with_source(ask())
    assert (first.source, second.source) == (Source.LIVE, Source.CACHE)
    assert first.reply == second.reply
    assert second.reply.duration == 12.5
    assert first.key == second.key == model.key(ask())
    assert live.calls == 1
    assert model.counts() == CacheCount(hits=1, live=1)
    assert CachedModel(scripted(), cache).complete_with_source(ask()).source is Source.CACHE


def test_the_whole_request_is_made_for_a_live_call_only() -> None:
    live = scripted()
    model = CachedModel(live, Memory())
    head = conversation_head(ask().messages)
    made: list[LlmRequest] = []

    def whole() -> LlmRequest:
        made.append(ask())
        return made[-1]

    short = ask().model_copy(update={"messages": ()})
    answers = [model.complete_with_source(short, head=head, whole=whole) for _ in range(3)]
    assert [one.source for one in answers] == [Source.LIVE, Source.CACHE, Source.CACHE]
    assert {one.key for one in answers} == {model.key(ask())}
    assert len(made) == live.calls == 1
    uncached = CachedModel(scripted(), None).complete_with_source(short, head=head, whole=whole)
    assert (uncached.source, len(made)) == (Source.LIVE, 2)


def test_a_given_head_finds_the_same_entry() -> None:
    model = CachedModel(scripted(), Memory())
    head = conversation_head(ask().messages)
    assert model.complete_with_source(ask(), head=head).source is Source.LIVE
    assert model.complete_with_source(ask()).source is Source.CACHE


@pytest.mark.parametrize(("read", "write", "calls", "kept"), [
    (True, True, 1, 1), (True, False, 2, 0), (False, True, 2, 1), (False, False, 2, 0),
])  # fmt: skip
def test_reading_and_writing_are_switches(read: bool, write: bool, calls: int, kept: int) -> None:
    live, cache = scripted(), Memory()
    model = CachedModel(live, cache, read=read, write=write)
    model.complete(ask())
    model.complete(ask())
    assert (live.calls, len(cache.kept)) == (calls, kept)
    assert bool(cache.gets) == read


def test_no_cache_at_all() -> None:
    live = scripted()
    model = CachedModel(live, None)
    assert [model.complete_with_source(ask()).source for _ in range(2)] == [Source.LIVE, Source.LIVE]
    assert live.calls == 2


def test_samples_of_an_unstable_endpoint_stay_apart() -> None:
    live = scripted(deterministic=False)
    model = CachedModel(live, Memory(), sample=0)
    for sample in (0, 1, 2, 0, None):
        model.complete_with_source(ask(), sample=sample)
    assert live.calls == 3


def test_samples_do_not_matter_to_a_deterministic_endpoint() -> None:
    live = scripted(deterministic=True)
    model = CachedModel(live, Memory())
    for sample in (0, 1, 2, None):
        model.complete_with_source(ask(), sample=sample)
    assert live.calls == 1


class Gated(ScriptedModel):
    """Holds every call until it is opened."""

    def __init__(self, rules: list[dict[str, Any]]) -> None:
        super().__init__(rules)
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.interrupt: BaseException | None = None

    def complete(self, request: LlmRequest) -> Reply:
        self.entered.release()
        assert self.gate.wait(30)
        if self.interrupt is not None:
            error, self.interrupt = self.interrupt, None
            raise error
        return super().complete(request)


def together(model: CachedModel, gated: Gated, count: int, do: Callable[[], Any]) -> list[Any]:
    """Results of `count` calls of `do` that were all under way before the gate opened."""

    def outcome() -> Any:
        try:
            return do()
        except BaseException as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(outcome) for _ in range(count)]
        assert gated.entered.acquire(timeout=30)
        gated.gate.set()
        return [future.result(timeout=30) for future in futures]


def test_concurrent_identical_misses_make_one_call() -> None:
    gated = Gated([{"reply": "hi"}])
    model = CachedModel(gated, Memory())
    answers = together(model, gated, 16, lambda: model.complete_with_source(ask()))
    assert gated.calls == 1
    assert {answer.reply.content for answer in answers} == {"hi"}
    assert [answer.source for answer in answers].count(Source.LIVE) == 1
    counts = model.counts()
    assert counts.live == 1 and counts.hits + counts.coalesced == 15


def test_concurrent_different_misses_are_different_calls() -> None:
    gated = Gated([{"reply": "hi"}])
    model = CachedModel(gated, Memory())
    texts = iter(f"m{index}" for index in range(8))
    lock = threading.Lock()

    def do() -> Any:
        with lock:
            text = next(texts)
        return model.complete(ask(text))

    together(model, gated, 8, do)
    assert gated.calls == 8


def test_waiting_requests_share_a_typed_failure_as_an_object_of_their_own() -> None:
    gated = Gated([{"error": "rate_limited", "message": "later", "times": 1}, {"reply": "hi"}])
    model = CachedModel(gated, None)
    assert model.counts() == CacheCount()
    cache = Memory()
    model = CachedModel(gated, cache)
    barrier = threading.Barrier(6)

    def do() -> Any:
        barrier.wait(30)
        return model.complete(ask())

    outcomes = together(model, gated, 6, do)
    errors = [outcome for outcome in outcomes if isinstance(outcome, RateLimited)]
    assert errors and all(error.message == "later" for error in errors)
    assert len({id(error) for error in errors}) == len(errors)
    assert all(isinstance(outcome, RateLimited | Reply) for outcome in outcomes)
    assert model.complete(ask()).content == "hi"


def test_a_failure_is_not_cached() -> None:
    live, cache = ScriptedModel([{"error": "transport", "times": 1}, {"reply": "hi"}]), Memory()
    model = CachedModel(live, cache)
    with pytest.raises(Exception, match="scripted"):
        model.complete(ask())
    assert not cache.kept
    assert model.complete_with_source(ask()).source is Source.LIVE


def test_an_interrupted_leader_does_not_take_the_others_with_it() -> None:
    gated = Gated([{"reply": "hi"}])
    gated.interrupt = KeyboardInterrupt()
    model = CachedModel(gated, Memory())
    outcomes = together(model, gated, 6, lambda: model.complete(ask()))
    assert sum(isinstance(outcome, KeyboardInterrupt) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Reply) for outcome in outcomes) == 5
    assert gated.calls == 1


def test_an_aborted_reply_is_not_kept() -> None:
    live = ScriptedModel([{"reply": {"content": "ha", "finish_reason": "abort"}}])
    cache = Memory()
    CachedModel(live, cache).complete(ask())
    assert not cache.kept


def test_it_passes_the_rest_on() -> None:
    live = scripted()
    model = CachedModel(live, Memory())
    assert model.endpoint() == live.endpoint()
    assert model.count_tokens(ask().messages) == live.count_tokens(ask().messages)
    model.close()
    with pytest.raises(Exception, match="closed"):
        live.complete(ask())


class Counting(ScriptedModel):
    """Says how often it was asked to count."""

    counted = 0

    def count_tokens(self, messages: Any) -> int:
        self.counted += 1
        return super().count_tokens(messages)


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
def test_a_conversation_is_counted_once(known: bool) -> None:
    live, memory = Counting([{"reply": "hi"}]), Memory()
    messages = ask("count me").messages
    head = conversation_head(messages) if known else None
    counts = [CachedModel(live, memory).count_tokens(messages, head=head) for _ in range(3)]
    assert counts == [ScriptedModel([{"reply": "hi"}]).count_tokens(messages)] * 3
    assert live.counted == 1
    assert CachedModel(live, memory).count_tokens(ask("another").messages) != 0
    assert live.counted == 2


def test_messages_are_listed_only_to_be_counted() -> None:
    live = Counting([{"reply": "hi"}])
    model, head = CachedModel(live, Memory()), conversation_head(ask("count me").messages)
    listed: list[int] = []

    def messages() -> Any:
        listed.append(1)
        return ask("count me").messages

    counts = [model.count_tokens(messages, head=head) for _ in range(3)]
    assert counts == [live.count_tokens(messages())] * 3
    assert len(listed) == 2
    assert model.count_tokens(messages) == counts[0]
    assert CachedModel(live, None).count_tokens(messages, head=head) == counts[0]


def test_a_count_is_no_reply_and_a_reply_no_count() -> None:
    live, memory = Counting([{"reply": "hi"}]), Memory()
    model = CachedModel(live, memory)
    model.count_tokens(ask().messages)
    assert model.complete_with_source(ask()).source is Source.LIVE
    assert model.complete_with_source(ask()).reply.content == "hi"


def test_without_a_cache_everything_is_counted() -> None:
    live = Counting([{"reply": "hi"}])
    for model in (
        CachedModel(live, None),
        CachedModel(live, Memory(), read=False),
        CachedModel(live, Memory(), write=False),
    ):
        before = live.counted
        model.count_tokens(ask().messages)
        model.count_tokens(ask().messages)
        assert live.counted == before + 2
