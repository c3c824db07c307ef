"""The contract of a model as tests.  Subclass `ModelContract`, give it a `model` fixture, and run pytest.

class TestMine(ModelContract):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls):
        model = MyEngine().start(EngineSpec(...))
        yield model
        model.close()
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from harnesstrain.core.digests import canonical
from harnesstrain.core.errors import ContextOverflow
from harnesstrain.core.records.llm import LlmRequest, Reply, Sampling
from harnesstrain.llm.base import Abortable, Inspectable, Model, Tallied

TOOL = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


def said(*texts: str, **sampling: Any) -> LlmRequest:
    """A conversation that alternates between user and assistant; 12 tokens of reply unless told otherwise."""
    roles = ("user", "assistant")
    messages = tuple({"role": roles[index % 2], "content": text} for index, text in enumerate(texts))
    return LlmRequest(messages=messages, sampling=Sampling(**{"max_tokens": 12, **sampling}))


def same(one: Reply, two: Reply) -> bool:
    """Whether two replies are equal in all that a harness sees."""
    left, right = (reply.model_copy(update={"duration": 0.0, "usage": two.usage}) for reply in (one, two))
    return left == right and one.usage.completion == two.usage.completion


class ModelContract:
    """What every model must do."""

    def test_it_says_what_it_is(self, model: Model) -> None:
        endpoint = model.endpoint()
        assert model.endpoint() == endpoint
        assert endpoint.engine and endpoint.model
        assert endpoint.context_length > 0 and endpoint.max_running > 0
        assert len(endpoint.fingerprint) == 64
        shown = canonical(endpoint.identity).decode()
        assert "127.0.0.1" not in shown and "localhost" not in shown
        assert json.loads(shown) == json.loads(canonical(json.loads(endpoint.model_dump_json())["identity"]))

    def test_it_replies(self, model: Model) -> None:
        reply = model.complete(said("Say hello."))
        assert reply.content or reply.tool_calls or reply.reasoning
        assert reply.finish_reason
        assert 0 < reply.usage.completion <= 12
        assert reply.usage.prompt > 0 and 0 <= reply.usage.cached <= reply.usage.prompt
        assert reply.duration >= 0
        for per_token in (reply.token_ids, reply.logprobs):
            assert per_token is None or len(per_token) <= reply.usage.completion

    def test_it_keeps_the_limit(self, model: Model) -> None:
        reply = model.complete(said("Count from one to a hundred.", max_tokens=1))
        assert reply.usage.completion == 1

    def test_it_takes_tools_and_whole_conversations(self, model: Model) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"command": "ls"}'}}
        request = LlmRequest(
            messages=(
                {"role": "system", "content": "You run commands."},
                {"role": "user", "content": "List the files. Ünïcode — \U0001f600"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "a.txt\nb.txt"},
            ),
            tools=(TOOL,),
            tool_choice="auto",
            sampling=Sampling(max_tokens=12),
        )
        assert model.complete(request).finish_reason

    def test_it_counts_tokens(self, model: Model) -> None:
        short = said("one two three").messages
        long = said("one two three", "four five six " * 20, "seven").messages
        assert 0 < model.count_tokens(short) < model.count_tokens(long)
        assert model.count_tokens(short) == model.count_tokens(short)

    def test_what_does_not_fit_overflows(self, model: Model) -> None:
        with pytest.raises(ContextOverflow):
            model.complete(said("word " * (4 * model.endpoint().context_length)))
        assert model.complete(said("Say hello.")).finish_reason

    def test_it_may_be_called_from_threads(self, model: Model) -> None:
        requests = [said(f"Say {index}.", "ok", "Again.") for index in range(4)] * 2
        with ThreadPoolExecutor(len(requests)) as pool:
            replies = list(pool.map(model.complete, requests))
        assert len(replies) == len(requests)
        if model.endpoint().deterministic:
            assert all(same(one, two) for one, two in zip(replies[:4], replies[4:], strict=True))
            assert all(
                same(model.complete(request), reply) for request, reply in zip(requests, replies[:4], strict=False)
            )

    def test_a_deterministic_model_is_a_function(self, model: Model) -> None:
        if not model.endpoint().deterministic:
            pytest.skip("this endpoint does not claim to be deterministic")
        for sampling in ({}, {"temperature": 1.0, "top_p": 0.9, "seed": 7}):
            request = said("Tell me a story.", **sampling)
            first = model.complete(request)
            model.complete(said("Something else.", **sampling))
            assert same(model.complete(request), first)

    def test_a_running_completion_can_be_given_up(self, model: Model) -> None:
        if not isinstance(model, Abortable):
            pytest.skip("this model cannot be interrupted")
        stop = Event()
        assert same(model.complete_until(said("Say hello."), stop), model.complete(said("Say hello.")))
        stop.set()
        assert model.complete_until(said("Say hello."), stop).finish_reason in ("abort", "stop", "length", "tool_calls")

    def test_what_it_tells_more_is_of_the_same_reply(self, model: Model) -> None:
        if not isinstance(model, Inspectable):
            pytest.skip("this model tells nothing more")
        request = said("Tell me a story about a bridge. " * 12)
        plain = model.complete(request)
        for told in (model.inspect(request), model.inspect(request, cold=True)):
            assert told.finish_reason
            assert told.token_ids is None or len(told.token_ids) <= told.usage.completion
            if model.endpoint().deterministic:
                assert (told.content, told.finish_reason) == (plain.content, plain.finish_reason)

    def test_it_tallies_each_request_once(self, model: Model) -> None:
        if not isinstance(model, Tallied) or (before := model.crowds()) is None:
            pytest.skip("this model does not tell how many requests it works on")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(model.complete, [said("Say hello.")] * 4))
        after = model.crowds()
        assert after is not None
        assert sum(after) - sum(before) == 4
