"""The client against real loopback servers that misbehave."""

from __future__ import annotations

import json
import logging
import socket
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from tenacity import RetryCallState, Retrying

from harnesstrain.core.errors import (
    BadRequest,
    ContextOverflow,
    HtError,
    LlmFailure,
    Owner,
    RateLimited,
    Refused,
    TransportFailure,
    UsageError,
)
from harnesstrain.core.records.llm import LlmRequest, Sampling, ToolCall, Usage
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.faults import failure
from harnesstrain.llm.transport import Patience, _Again, _pause
from tests.llm.badserver import GOOD, Act, bad_server, breaks_off, hangs_up, raw, says, silent, trickles

QUICK = Patience(connect=2.0, attempt=5.0, deadline=5.0, absent=0.3, pause=0.002, longest_pause=0.01)
SECRET = "sk-canary-4f1d0e9b77"
ASK = LlmRequest(messages=({"role": "user", "content": "hello"},))


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def client(url: str, **options: Any) -> OpenAIModel:
    return OpenAIModel(url, **{"patience": QUICK, "api_key": SECRET, **options})


def answered(body: dict[str, Any]) -> Any:
    with bad_server(says(body)) as server:
        model = client(server.url)
        try:
            return model.complete(ASK)
        finally:
            model.close()


def failed(*acts: Act, **options: Any) -> tuple[HtError, int]:
    """The error, and the number of completions asked for."""
    with bad_server(*acts) as server:
        model = client(server.url, **options)
        try:
            with pytest.raises(HtError) as caught:
                model.complete(ASK)
        finally:
            model.close()
        return caught.value, len(server.posts())


def test_a_plain_reply() -> None:
    with bad_server() as server:
        model = client(server.url)
        reply = model.complete(ASK)
        model.close()
    assert (reply.content, reply.finish_reason, reply.usage) == ("fine", "stop", Usage(prompt=3, completion=1))
    assert reply.duration > 0
    assert server.posts()[0].headers["Authorization"] == f"Bearer {SECRET}"


def test_the_request_says_everything_and_nothing_else() -> None:
    request = LlmRequest(
        messages=({"role": "user", "content": "é \ud800"},),
        tools=({"type": "function", "function": {"name": "run", "parameters": {"b": 1, "a": 2}}},),
        tool_choice="auto",
        sampling=Sampling(temperature=0.5, top_p=0.9, top_k=5, seed=7, max_tokens=9, stop=("x",)),
    )
    with bad_server() as server:
        model = client(server.url)
        model.complete(request)
        model.close()
    sent = server.posts()[0].body
    assert sent["messages"] == [{"role": "user", "content": "é ?"}]
    assert list(sent["tools"][0]["function"]["parameters"]) == ["b", "a"]
    rest = {name: value for name, value in sent.items() if name not in ("messages", "tools")}
    assert rest == {
        "model": "m", "temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 7, "max_tokens": 9, "stop": ["x"],
        "tool_choice": "auto", "stream": False,
    }  # fmt: skip


def test_extra_fields_are_sent_and_become_part_of_the_identity() -> None:
    with bad_server() as server:
        model = client(server.url, body={"cache_prompt": False, "seed": None}, token_field="max_completion_tokens")
        plain = client(server.url)
        model.complete(ASK)
        assert model.endpoint().fingerprint != plain.endpoint().fingerprint
        model.close()
        plain.close()
    sent = server.posts()[0].body
    assert sent["cache_prompt"] is False
    assert "seed" not in sent and "max_tokens" not in sent
    assert sent["max_completion_tokens"] == 512


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again(status: int) -> None:
    with bad_server(says({"error": {"message": "busy"}}, status), says({}, status), says(GOOD)) as server:
        model = client(server.url)
        assert model.complete(ASK).content == "fine"
        model.close()
    assert len(server.posts()) == 3


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_is_about_the_request_is_not_tried_again(status: int) -> None:
    error, posts = failed(says({"error": {"message": "no"}}, status))
    assert type(error) is BadRequest
    assert posts == 1
    assert str(status) in error.message


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405, 409, 410, 424, 451, 501])
def test_a_refusal_that_would_meet_any_request_is_infrastructures(status: int) -> None:
    error, posts = failed(says({"error": {"message": "no"}}, status))
    assert type(error) is Refused
    assert error.owner is Owner.INFRA
    assert posts == 1
    assert str(status) in error.message


STANDING = {
    "openai": {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}},
    "anthropic": {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access it"}},
    "gemini": [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}],
}


@pytest.mark.parametrize("server", STANDING)
def test_servers_that_refuse_the_key_or_the_account_with_400(server: str) -> None:
    error, _ = failed(says(STANDING[server], 400))
    assert type(error) is Refused


@pytest.mark.parametrize("body", [
    {"error": {"message": "bad tool: model_not_found, API key not valid", "code": ["model_not_found"]}},
    {"error": "model_not_found"},
    ["model_not_found"],
])  # fmt: skip
def test_what_a_request_says_makes_no_refusal_of_the_key(body: Any) -> None:
    error, _ = failed(says(body, 400))
    assert type(error) is BadRequest


@pytest.mark.parametrize("act", [hangs_up, breaks_off])
def test_a_broken_exchange_is_tried_again(act: Act) -> None:
    with bad_server(act, act, says(GOOD)) as server:
        model = client(server.url)
        assert model.complete(ASK).content == "fine"
        model.close()
    assert len(server.posts()) == 3


def test_limits_end_the_attempts() -> None:
    brief = Patience(attempt=5, deadline=0.3, pause=0.01, longest_pause=0.02)
    error, posts = failed(says({}, 503), patience=brief)
    assert type(error) is TransportFailure and posts > 1
    error, posts = failed(says({}, 429), patience=brief)
    assert type(error) is RateLimited and posts > 1


def test_a_wait_that_is_longer_than_the_deadline_is_not_begun() -> None:
    error, posts = failed(says({}, 429, Retry_After="3600"))
    assert type(error) is RateLimited
    assert posts == 1


def test_the_pause_is_what_the_server_asks_for_or_grows() -> None:
    def pause(attempt: int, after: float | None) -> float:
        state = RetryCallState(Retrying(), None, (), {})
        state.attempt_number = attempt
        state.set_exception((_Again, _Again(TransportFailure("x"), after=after), None))  # type: ignore[arg-type]
        return _pause(state, Patience(pause=1.0, longest_pause=8.0))

    assert pause(1, 100.0) == 100.0
    assert 1.0 <= pause(1, None) <= 2.0
    assert 4.0 <= pause(3, None) <= 8.0
    assert pause(50, None) == 8.0
    assert pause(3, 0.0) >= 4.0


def test_a_server_that_is_not_there(unused_port: int) -> None:
    model = client(f"http://127.0.0.1:{unused_port}/v1")
    with pytest.raises(TransportFailure, match="cannot be reached"):
        model.complete(ASK)
    model.close()


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def test_silence_and_trickles_end_with_the_deadline(stop: threading.Event) -> None:
    brief = Patience(attempt=0.15, deadline=0.4, pause=0.01)
    for act in (silent(stop), trickles(stop)):
        error, posts = failed(act, patience=brief)
        assert type(error) is TransportFailure
        assert posts >= 1


def test_an_endless_answer_is_bounded() -> None:
    error, posts = failed(raw(b'"' + b"x" * 200_000 + b'"'), max_bytes=100_000)
    assert type(error) is TransportFailure and "longer than 100000 bytes" in error.message
    assert posts == 1


GARBAGE: list[Any] = [
    None, 1, [], {}, {"choices": []}, {"choices": [None]}, {"choices": [{}]}, {"choices": [{"message": None}]},
    {"choices": [{"message": {"content": 5}}]}, {"choices": [{"message": {"content": [1]}}]},
    {"choices": [{"message": {"tool_calls": [{}]}}]}, {"choices": [{"message": {"tool_calls": 7}}]},
    {"choices": {"a": 1}}, {"error": {"message": "in a 200"}},
]  # fmt: skip


@pytest.mark.parametrize("body", GARBAGE, ids=json.dumps)
def test_a_malformed_body_is_a_transport_failure(body: Any) -> None:
    error, posts = failed(says(body))
    assert type(error) is TransportFailure
    assert posts == QUICK.garbled


@pytest.mark.parametrize("data", [b"", b"<html>", b"{", b"\xff\xfe", b"[" * 100_000, b"NaN"])
def test_what_is_not_json_is_a_transport_failure(data: bytes) -> None:
    error, posts = failed(raw(data))
    assert type(error) is TransportFailure
    assert posts == QUICK.garbled


def test_garbage_that_passes_is_forgiven() -> None:
    with bad_server(raw(b"<html>"), says({"choices": []}), says(GOOD)) as server:
        model = client(server.url)
        assert model.complete(ASK).content == "fine"
        model.close()


OVERFLOWS = {
    "openai": {"error": {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000",
                         "type": "invalid_request_error", "code": "context_length_exceeded"}},
    "vllm": {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, you requested "
             "5000 tokens in the messages, Please reduce the length of the messages.", "code": 400},
    "sglang": {"object": "error", "message": "The input (9000 tokens) is longer than the model's context length "
               "(4096 tokens).", "type": "BadRequestError", "code": 400},
    "llamacpp": {"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it",
                           "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 4}},
    "anthropic": {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}},
    "tgi": {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"},
}  # fmt: skip


@pytest.mark.parametrize("server", OVERFLOWS)
def test_context_overflow_of_known_servers(server: str) -> None:
    error, posts = failed(says(OVERFLOWS[server], 400))
    assert type(error) is ContextOverflow
    assert posts == 1


def test_other_refusals_are_no_overflow() -> None:
    error, _ = failed(says({"error": {"message": "max_tokens is too large: 5000. At most 4096 are supported"}}, 400))
    assert type(error) is BadRequest


def test_reasoning_tools_and_usage() -> None:
    reply = answered(
        {
            "choices": [
                {
                    "message": {
                        "content": None,
                        "reasoning_content": "hm",
                        "tool_calls": [
                            {"id": "a", "function": {"name": "f", "arguments": '{"x": 1'}},
                            {"function": {"name": "g", "arguments": {"é": 2}}},
                            {"id": None, "function": {"name": "h"}},
                        ],
                    },
                    "finish_reason": "tool_calls",
                }
            ],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
        }
    )
    assert reply.content == ""
    assert reply.reasoning == "hm"
    assert reply.tool_calls == (
        ToolCall(id="a", name="f", arguments='{"x": 1'),
        ToolCall(id="call_1", name="g", arguments='{"é": 2}'),
        ToolCall(id="call_2", name="h", arguments=""),
    )
    assert reply.usage == Usage(prompt=10, cached=8, completion=5, reasoning=2)


def choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "x", "reasoning": "r"}, **fields}]}


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": None}, {"prompt_tokens": -1}, {"prompt_tokens": "9"}])
def test_missing_or_odd_usage_counts_nothing(usage: Any) -> None:
    reply = answered({**choice(), "usage": usage})
    assert reply.usage == Usage()
    assert reply.reasoning == "r"
    assert reply.finish_reason == "stop"


def test_tokens_and_logprobs_in_every_form() -> None:
    entries = [{"token": "a", "logprob": -0.1, "id": 4}, {"token": "b", "logprob": -2, "id": 5}]
    assert answered(choice(logprobs={"content": entries})).token_ids == (4, 5)
    assert answered(choice(logprobs={"content": entries})).logprobs == (-0.1, -2.0)
    assert answered(choice(token_ids=[1, 2, 3])).token_ids == (1, 2, 3)
    assert answered(choice(response_token_ids=[7])).token_ids == (7,)
    partly = answered(choice(logprobs={"content": [{"logprob": None}, {"logprob": -1}]}))
    assert (partly.token_ids, partly.logprobs) == (None, None)


LEAKS: list[Act] = [
    says({"error": {"message": f"Incorrect API key provided: {SECRET}"}}, 401),
    says({"error": {"message": f"you sent Authorization: Bearer {SECRET}"}}, 400),
    says({"error": {"message": f"maximum context length; header {SECRET}"}}, 400),
    says({"error": f"{SECRET}"}, 500),
    raw(SECRET.encode(), 404),
    raw(SECRET.encode()),
    hangs_up,
    breaks_off,
]


@pytest.mark.parametrize("act", LEAKS)
def test_no_secret_in_anything_raised_or_logged(act: Act, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    brief = Patience(attempt=2, deadline=0.2, pause=0.01)
    with bad_server(act) as server:
        model = client(server.url, patience=brief)
        shown = repr(model) + str(vars(model))
        try:
            model.complete(ASK)
        except HtError as error:
            shown += "".join(traceback.format_exception(error)) + json.dumps(error.payload(), default=repr)
        else:
            pytest.fail("it should have raised")
        model.close()
    assert SECRET not in shown
    assert "Bearer" not in shown.replace("Bearer [key]", "")
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "url", [f"http://user:{SECRET}@h/v1", f"http://h/v1?key={SECRET}", f"ftp://{SECRET}", SECRET, "http://"]
)
def test_a_url_with_credentials_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        OpenAIModel(url)
    assert SECRET not in str(caught.value.payload())


@pytest.mark.parametrize("key", [f"{SECRET}\nX-Evil: 1", f"{SECRET} x", f"{SECRET}é"])
def test_a_key_that_cannot_be_sent_is_refused_without_quoting_it(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        OpenAIModel("http://h/v1", api_key=key)
    assert SECRET not in str(caught.value.payload())


def test_the_environment_is_not_read(monkeypatch: pytest.MonkeyPatch, unused_port: int) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_port}")
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{unused_port}")
    with bad_server() as server:
        model = client(server.url, api_key=None)
        assert model.complete(ASK).content == "fine"
        model.close()
    assert "Authorization" not in server.posts()[0].headers


def test_redirects_are_not_followed() -> None:
    error, posts = failed(says({}, 302, Location="http://127.0.0.1:1/steal"))
    assert type(error) is Refused
    assert posts == 1


def test_a_request_that_json_cannot_hold() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with bad_server() as server:
        model = client(server.url)
        for content in (float("nan"), deep):
            with pytest.raises(BadRequest):
                model.complete(
                    LlmRequest.model_construct(
                        messages=({"role": "user", "content": content},),
                        tools=(),
                        tool_choice=None,
                        sampling=Sampling(),
                    )
                )
        model.close()
    while deep:
        deep = deep[0]


def test_a_closed_client_fails_as_transport() -> None:
    with bad_server() as server:
        model = client(server.url)
        model.complete(ASK)
        model.close()
        model.close()
        with pytest.raises(LlmFailure):
            model.complete(ASK)


def test_many_threads_share_one_client() -> None:
    with bad_server() as server:
        model = client(server.url)
        replies: list[str] = []
        threads = [threading.Thread(target=lambda: replies.append(model.complete(ASK).content)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        model.close()
    assert replies == ["fine"] * 16
    assert [request.path for request in server.seen].count("/v1/models") == 1


def test_a_page_for_a_browser_is_not_quoted_whole() -> None:
    page = "<!doctype html><html><head><title>Gone fishing</title></head><body>" + "<p>\x1b[1mx</p>" * 300
    assert failure(404, page).message.endswith("a web page, 'Gone fishing'")
    assert failure(418, "<html>").message.endswith("a web page")
    told = failure(400, "a\x00b\n" + "long " * 100).message
    assert len(told) < 250 and told.isprintable() and told.endswith("…")
