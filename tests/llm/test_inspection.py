"""Token ids, logprobs and a cold evaluation, asked of each kind of server."""

from __future__ import annotations

from typing import Any

import pytest

from harnesstrain.core.errors import BadRequest
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply, Usage
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.front import Front
from harnesstrain.llm.scripted import ScriptedModel, Settings
from tests.llm.badserver import GOOD, bad_server, says
from tests.llm.test_client import QUICK

ASK = LlmRequest(messages=({"role": "user", "content": "x"},))
REFUSES = says({"error": {"message": "no such field"}}, status=400)


def models(owner: str) -> dict[str, Any]:
    return {"data": [{"id": "m", "owned_by": owner, "max_model_len": 4096}]}


@pytest.mark.parametrize(
    ("owner", "warm", "cold"),
    [
        ("somebody", {"logprobs"}, {"logprobs"}),
        ("llamacpp", {"logprobs"}, {"logprobs", "cache_prompt"}),
        ("vllm", {"logprobs", "return_token_ids"}, {"logprobs", "return_token_ids", "cache_salt"}),
        ("sglang", {"logprobs", "return_token_ids"}, {"logprobs", "return_token_ids"}),
    ],
)
def test_each_server_is_asked_in_its_own_words(owner: str, warm: set[str], cold: set[str]) -> None:
    with bad_server(models=models(owner), routes={"/flush_cache": says("flushed")}) as server:
        model = OpenAIModel(server.url, patience=QUICK)
        model.complete(ASK)
        for is_cold in (False, True, True):
            model.inspect(ASK, cold=is_cold)
        model.close()
        plain, *asked = [set(post.body) for post in server.posts()]
        assert [fields - plain for fields in asked] == [warm, cold, cold]
        salts = [post.body.get("cache_salt") for post in server.posts()[2:]]
        assert owner != "vllm" or len(set(salts)) == 2
        flushed = sum(seen.path == "/flush_cache" for seen in server.seen)
        assert flushed == (2 if owner == "sglang" else 0)


def test_what_a_server_refuses_is_asked_once() -> None:
    with bad_server(REFUSES, REFUSES, says(GOOD), models=models("vllm")) as server:
        model = OpenAIModel(server.url, patience=QUICK)
        assert model.inspect(ASK, cold=True).content == "fine"
        assert model.inspect(ASK, cold=True).content == "fine"
        fields = [{"logprobs", "return_token_ids", "cache_salt"} & set(post.body) for post in server.posts()]
        assert (
            fields
            == [{"logprobs", "return_token_ids", "cache_salt"}, {"logprobs", "cache_salt"}] + [{"cache_salt"}] * 2
        )
        model.close()


def test_a_request_that_is_refused_itself_says_so() -> None:
    with bad_server(REFUSES, models=models("vllm")) as server:
        model = OpenAIModel(server.url, patience=QUICK)
        with pytest.raises(BadRequest, match="no such field"):
            model.inspect(ASK)
        assert "logprobs" not in server.posts()[-1].body
        model.close()


def test_a_foreign_server_does_not_tell_its_crowds() -> None:
    with bad_server() as server:
        model = OpenAIModel(server.url, patience=QUICK)
        assert model.crowds() is None
        model.close()


class Telling:
    """Notes how it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def endpoint(self) -> Endpoint:
        return Endpoint(engine="telling", model="m", context_length=4096)

    def complete(self, request: LlmRequest) -> Reply:
        self.asked.append(("complete", False))
        return Reply(content="x")

    def inspect(self, request: LlmRequest, *, cold: bool = False, stop: StopSignal | None = None) -> Reply:
        self.asked.append(("inspect", cold))
        return Reply(content="x", token_ids=(7,), logprobs=(-0.1,), usage=Usage(prompt=3))

    def count_tokens(self, messages: Any) -> int:
        return 1

    def close(self) -> None:
        pass


def test_the_front_passes_it_on() -> None:
    behind = Telling()
    with Front(behind) as front:
        model = OpenAIModel(front.url, patience=QUICK)
        assert model.complete(ASK).logprobs is None
        assert model.inspect(ASK).logprobs == (-0.1,)
        assert model.inspect(ASK, cold=True).token_ids == (7,)
        model.close()
    assert behind.asked == [("complete", False), ("inspect", False), ("inspect", True)]


def test_the_front_counts_crowds() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with Front(ScriptedModel([{"reply": "x"}], Settings(latency=0.1)), max_running=3) as front:
        model = OpenAIModel(front.url, patience=QUICK)
        assert model.crowds() == (0, 0, 0)
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(model.complete, [ASK] * 6))
        crowds = model.crowds()
        assert crowds is not None
        assert (len(crowds), sum(crowds)) == (3, 6)
        assert crowds[2] > 0
        model.close()
