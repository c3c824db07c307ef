"""The front over real HTTP: round trips with the client, streams, the queue, refusals, clients that go away."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from harnesstrain.core.errors import (
    BadRequest,
    ContextOverflow,
    LlmFailure,
    Prerequisite,
    RateLimited,
    Refused,
    TransportFailure,
    UsageError,
)
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply, Sampling, ToolCall, Usage
from harnesstrain.llm.base import Model
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.front import Front
from harnesstrain.llm.script import Script
from harnesstrain.llm.scripted import ScriptedModel, Settings
from harnesstrain.llm.transport import Patience
from tests.llm.badserver import bad_server, says

QUICK = Patience(connect=2.0, attempt=20.0, deadline=20.0, absent=0.2, pause=0.002, longest_pause=0.01)
ASK = LlmRequest(messages=({"role": "user", "content": "hello"},))


def ask(text: str) -> LlmRequest:
    return LlmRequest(messages=({"role": "user", "content": text},))


@pytest.fixture
def served() -> Iterator[Callable[..., Front]]:
    """Starts fronts, and ends them with their models."""
    started: list[tuple[Front, Model]] = []

    def start(model: Model | Sequence[dict[str, Any]], settings: Settings | None = None, **options: Any) -> Front:
        model = model if hasattr(model, "complete") else ScriptedModel(model, settings)  # type: ignore[arg-type, assignment]
        front = Front(model, **options)  # type: ignore[arg-type]
        started.append((front, model))  # type: ignore[arg-type]
        return front.start()

    yield start
    for front, model in started:
        model.close()
        front.close()
        assert not front.alive


@pytest.fixture
def connected() -> Iterator[Callable[[Front], OpenAIModel]]:
    """Clients, closed at the end."""
    clients: list[OpenAIModel] = []

    def connect(front: Front) -> OpenAIModel:
        clients.append(OpenAIModel(front.url, patience=QUICK))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def post(front: Front, body: Any, path: str = "/v1/chat/completions", raw: bytes | None = None) -> tuple[int, Any, Any]:
    """Status, headers and text of a plain POST."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(front.url).port, timeout=20)
    connection.request("POST", path, raw if raw is not None else json.dumps(body))
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, response.headers, text


def get(front: Front, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(front.url).port, timeout=20)
    connection.request("GET", path)
    said = json.loads(connection.getresponse().read())
    connection.close()
    return said


class Fixed:
    """A model that gives one reply, and keeps the requests it got."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.requests: list[LlmRequest] = []

    def endpoint(self) -> Endpoint:
        return Endpoint(
            engine="embedded",
            model="fixed",
            context_length=1000,
            deterministic=True,
            max_running=3,
            identity={"weights": "é", "n": 1.5, "deep": {"a": [1, None]}},
        )

    def complete(self, request: LlmRequest) -> Reply:
        self.requests.append(request)
        return self.reply

    def count_tokens(self, messages: Any) -> int:
        return 7 * len(messages)

    def close(self) -> None:
        pass


FULL = Reply(
    content="c é \ud800 \x00",
    reasoning="r",
    tool_calls=(ToolCall(id="x", name="f", arguments='{"broken": '), ToolCall(id="y", name="g", arguments="")),
    finish_reason="tool_calls",
    usage=Usage(prompt=10, cached=4, completion=5, reasoning=1),
    token_ids=(1, 2, 3),
    logprobs=(-0.1, -1.0000000000000002, -5e-324),
    duration=1.2345678901234567,
)


@pytest.mark.parametrize("reply", [FULL, Reply(), Reply(content="x"), Reply(tool_calls=FULL.tool_calls)])
def test_a_reply_crosses_the_wire_unchanged(served: Any, connected: Any, reply: Reply) -> None:
    client = connected(served(Fixed(reply)))
    assert client.complete(ASK) == reply


def test_an_endpoint_crosses_the_wire_unchanged(served: Any, connected: Any) -> None:
    fixed = Fixed(Reply())
    client = connected(served(fixed))
    assert client.endpoint() == fixed.endpoint()
    assert client.endpoint().fingerprint == fixed.endpoint().fingerprint


def test_a_request_crosses_the_wire_unchanged(served: Any, connected: Any) -> None:
    request = LlmRequest(
        messages=(
            {"role": "system", "content": "é"},
            {"role": "user", "content": [{"type": "text", "text": "t"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "", "name": "f"},
        ),
        tools=({"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": {}}}},),
        tool_choice={"type": "function", "function": {"name": "f"}},
        sampling=Sampling(temperature=0.7, top_p=0.95, top_k=3, seed=2**40, max_tokens=5, stop=("a", "b")),
    )
    fixed = Fixed(Reply())
    connected(served(fixed)).complete(request)
    assert fixed.requests == [request]


def test_a_front_may_run_fewer_requests_than_its_model(served: Any, connected: Any) -> None:
    assert connected(served(Fixed(Reply()), max_running=2)).endpoint().max_running == 2
    assert connected(served(Fixed(Reply()), max_running=99)).endpoint().max_running == 3


def test_tokens_are_counted_by_the_model(served: Any, connected: Any) -> None:
    client = connected(served(Fixed(Reply())))
    assert client.count_tokens([{"role": "user", "content": "a"}] * 3) == 21


def test_health_and_models(served: Any) -> None:
    front = served(Fixed(Reply()))
    health = get(front, "/health")
    assert health == {
        "status": "ok",
        "fingerprint": front.endpoint.fingerprint,
        "max_running": 3,
        "running": 0,
        "waiting": 0,
        "crowds": [0, 0, 0],
    }
    entry = get(front, "/v1/models")["data"][0]
    assert (entry["id"], entry["max_model_len"]) == ("fixed", 1000)
    assert entry["system_fingerprint"] == front.endpoint.fingerprint
    assert "127.0.0.1" not in json.dumps(entry)


def test_a_stream_carries_the_same_reply(served: Any) -> None:
    front = served(Fixed(FULL))
    body = {"messages": list(ASK.messages), "stream": True, "stream_options": {"include_usage": True}}
    status, headers, text = post(front, body)
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content", "") for delta in deltas) == FULL.content
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == FULL.reasoning
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [(call["index"], call["function"]["name"]) for call in calls] == [(0, "f"), (1, "g")]
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] == 15
    assert {chunk["system_fingerprint"] for chunk in chunks} == {front.endpoint.fingerprint}


def test_failures_keep_their_type(served: Any, connected: Any) -> None:
    front = served([
        {"match": "over", "error": "context_overflow", "message": "9 tokens, 5 fit"},
        {"match": "bad", "error": "bad_request", "message": "no such thing"},
        {"match": "busy", "error": "rate_limited"},
        {"match": "gone", "error": "transport", "message": "worker died"},
        {"match": "shut", "error": "refused", "message": "no such route"},
    ])  # fmt: skip
    client = OpenAIModel(front.url, patience=Patience(attempt=5, deadline=0.3, pause=0.01))
    for text, kind in (
        ("over", ContextOverflow),
        ("bad", BadRequest),
        ("busy", RateLimited),
        ("gone", TransportFailure),
        ("shut", Refused),
    ):
        with pytest.raises(kind) as caught:
            client.complete(ask(text))
        assert type(caught.value) is kind
        if kind is ContextOverflow:
            assert caught.value.message == "the request does not fit the model's context: 9 tokens, 5 fit"
    client.close()
    status, _, text = post(front, {"messages": list(ask("over").messages)})
    error = json.loads(text)["error"]
    assert (status, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
    assert "9 tokens, 5 fit" in error["message"]
    assert post(front, {"messages": list(ask("busy").messages)})[1]["retry-after"] == "1"


def test_a_broken_script_is_told_once_and_is_not_the_requests_fault(served: Any, connected: Any) -> None:
    def reply(request: LlmRequest) -> str:
        raise ValueError("oops")

    front = served(ScriptedModel(Script(reply, identity="0" * 64)))
    with pytest.raises(Refused, match=r"\(424\): the script: ValueError: oops"):
        connected(front).complete(ask("x"))


@pytest.mark.parametrize(("status", "told"), [(401, 401), (404, 404), (302, 424), (501, 424)])
def test_what_the_model_behind_is_refused_is_refused_here(served: Any, connected: Any, status: int, told: int) -> None:
    with bad_server(says({"error": {"message": "no"}}, status)) as server:
        behind = OpenAIModel(server.url, patience=QUICK)
        front = served(behind)
        assert post(front, {"messages": list(ASK.messages)})[0] == told
        with pytest.raises(Refused):
            connected(front).complete(ASK)


REFUSED: list[tuple[Any, int, str | None]] = [
    ([], 400, None),
    ({}, 400, "messages"),
    ({"messages": []}, 400, "messages"),
    ({"messages": "hi"}, 400, "messages"),
    ({"messages": ["hi"]}, 400, "messages[0]"),
    ({"messages": [{"content": "x"}]}, 400, "messages[0].role"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, 400, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages[0].content"),
    ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, 400, "messages[0].tool_calls"),
    ({"model": "other"}, 404, "model"),
    ({"n": 2}, 400, "n"),
    ({"temperature": -1}, 400, "temperature"),
    ({"temperature": "hot"}, 400, "temperature"),
    ({"top_p": 2}, 400, "top_p"),
    ({"max_tokens": 0}, 400, "max_tokens"),
    ({"max_tokens": 1.5}, 400, "max_tokens"),
    ({"max_completion_tokens": True}, 400, "max_completion_tokens"),
    ({"seed": 2**70}, 400, "seed"),
    ({"stop": [1]}, 400, "stop"),
    ({"tools": [{"type": "web_search"}]}, 400, "tools"),
    ({"tool_choice": 1}, 400, "tool_choice"),
    ({"response_format": {"type": "json_object"}}, 400, "response_format"),
    ({"logit_bias": {"1": 5}}, 400, "logit_bias"),
    ({"frequency_penalty": 0.5}, 400, "frequency_penalty"),
    ({"reasoning_effort": 3}, 400, "reasoning_effort"),
]


@pytest.mark.parametrize(("change", "status", "param"), REFUSED, ids=str)
def test_what_cannot_be_honoured_is_refused(served: Any, change: Any, status: int, param: str | None) -> None:
    fixed = Fixed(Reply())
    front = served(fixed)
    body = change if not isinstance(change, dict) or not change or "messages" in change else {
        "messages": list(ASK.messages), **change
    }  # fmt: skip
    got, _, text = post(front, body)
    assert (got, json.loads(text)["error"]["param"]) == (status, param)
    assert not fixed.requests


def test_neutral_and_unknown_fields_are_accepted(served: Any) -> None:
    fixed = Fixed(Reply(content="ok"))
    body = {
        "model": "fixed", "messages": list(ASK.messages), "n": 1, "user": "me", "logit_bias": None, "top_k": -1,
        "response_format": {"type": "text"}, "presence_penalty": 0, "stop": "x", "max_completion_tokens": 4,
    }  # fmt: skip
    assert post(served(fixed), body)[0] == 200
    assert fixed.requests[0].sampling == Sampling(stop=("x",), max_tokens=4)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 200_000, b"null"])
def test_what_is_not_json_is_refused(served: Any, raw: bytes) -> None:
    status, _, text = post(served(Fixed(Reply())), None, raw=raw)
    assert status == 400 and "error" in json.loads(text)


def test_a_request_that_is_too_long_is_refused(served: Any) -> None:
    front = served(Fixed(Reply()), max_bytes=1000)
    assert post(front, {"messages": [{"role": "user", "content": "x" * 2000}]})[0] == 413
    assert post(front, {"messages": list(ASK.messages)})[0] == 200


def test_unknown_routes(served: Any) -> None:
    front = served(Fixed(Reply()))
    assert get(front, "/v2/nothing")["error"]["code"] == "not_found"
    assert post(front, {}, "/v1/models")[0] == 405


def test_a_bug_in_the_model_is_answered_and_the_front_lives_on(served: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Fixed):
        def complete(self, request: LlmRequest) -> Reply:
            raise ZeroDivisionError("oops")

    front = served(Broken(Reply()))
    status, _, text = post(front, {"messages": list(ASK.messages)})
    assert status == 500 and json.loads(text)["error"]["code"] == "bug"
    assert "oops" not in text and "oops" in caplog.text
    assert get(front, "/health")["status"] == "ok"


class Ordered(Fixed):
    """Holds the first request until it is let go; keeps the order in which requests ran."""

    def __init__(self) -> None:
        super().__init__(Reply(content="x"))
        self.go = threading.Event()
        self.order: list[str] = []
        self.lock = threading.Lock()
        self.running = 0
        self.peak = 0

    def complete(self, request: LlmRequest) -> Reply:
        with self.lock:
            self.order.append(request.messages[0]["content"])
            self.running += 1
            self.peak = max(self.peak, self.running)
        assert self.go.wait(30)
        with self.lock:
            self.running -= 1
        return self.reply


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_requests_run_in_the_order_in_which_they_came(served: Any, connected: Any) -> None:
    model = Ordered()
    front = served(model, max_running=1)
    client = connected(front)
    client.endpoint()
    with ThreadPoolExecutor(8) as pool:
        futures = []
        for index in range(8):
            futures.append(pool.submit(client.complete, ask(str(index))))
            until(lambda expected=index: get(front, "/health")["waiting"] + len(model.order) == expected + 1)  # type: ignore[misc]
        model.go.set()
        for future in futures:
            future.result(timeout=30)
    assert model.order == [str(index) for index in range(8)]
    assert model.peak == 1


def test_no_more_run_at_once_than_allowed(served: Any, connected: Any) -> None:
    model = Ordered()
    client = connected(served(model, max_running=2))
    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(client.complete, ask(str(index))) for index in range(6)]
        until(lambda: len(model.order) == 2)
        model.go.set()
        for future in futures:
            future.result(timeout=30)
    assert model.peak == 2


def test_a_full_queue_is_rate_limited(served: Any) -> None:
    model = Ordered()
    front = served(model, max_running=1, max_waiting=1)
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(post, front, {"messages": list(ask("a").messages)})
        until(lambda: len(model.order) == 1)
        waiting = pool.submit(post, front, {"messages": list(ask("b").messages)})
        until(lambda: bool(get(front, "/health")["waiting"] == 1))
        status, headers, _ = post(front, {"messages": list(ask("c").messages)})
        assert (status, headers["retry-after"]) == (429, "1")
        model.go.set()
        assert running.result(timeout=30)[0] == waiting.result(timeout=30)[0] == 200


def hang_up_after_sending(front: Front, text: str) -> None:
    body = json.dumps({"messages": list(ask(text).messages)}).encode()
    with socket.create_connection(("127.0.0.1", urlsplit(front.url).port or 0)) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        until(lambda: (said := get(front, "/health"))["running"] + said["waiting"] > 0)


def test_a_running_request_is_given_up_when_its_client_is_gone(served: Any, connected: Any) -> None:
    front = served([{"match": "slow", "reply": "late", "delay": 3600}, {"reply": "next"}], max_running=1)
    hang_up_after_sending(front, "slow")
    assert connected(front).complete(ask("x")).content == "next"
    until(lambda: bool(get(front, "/health")["running"] == 0))


def test_a_waiting_request_is_dropped_when_its_client_is_gone(served: Any, connected: Any) -> None:
    model = Ordered()
    front = served(model, max_running=1)
    client = connected(front)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.complete, ask("first"))
        until(lambda: model.order == ["first"])
        hang_up_after_sending(front, "dropped")
        time.sleep(0.2)  # the front has to notice
        model.go.set()
        first.result(timeout=30)
        assert client.complete(ask("last")).content == "x"
    assert model.order == ["first", "last"]


def test_closing_ends_what_runs_and_what_waits(served: Any) -> None:
    front = served([{"reply": "late", "delay": 3600}], max_running=1)
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(post, front, {"messages": list(ASK.messages)}) for _ in range(3)]
        until(lambda: bool(get(front, "/health")["waiting"] == 2))
        front.close()
        front.close()
        for future in futures:
            assert isinstance(future.exception(timeout=30), OSError | http.client.HTTPException) or future.result()[
                0
            ] in (200, 502)


def test_a_model_that_cannot_be_interrupted_does_not_keep_the_front(served: Any) -> None:
    model = Ordered()
    front = served(model, max_running=1)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(post, front, {"messages": list(ASK.messages)})
        until(lambda: len(model.order) == 1)
        front.close()
        assert not front.alive
        model.go.set()
        future.exception(timeout=30)


def test_a_taken_port(served: Any) -> None:
    front = served(Fixed(Reply()))
    with pytest.raises(Prerequisite, match="cannot be had"):
        Front(Fixed(Reply()), port=urlsplit(front.url).port or 0).start()


def test_replies_are_sent_at_once(served: Any) -> None:
    """Without TCP_NODELAY every reply on a kept connection waits 40 ms for an acknowledgement."""
    front = served(Fixed(Reply()))
    assert [listener.proto for listener in front._server.servers[0].sockets] == [socket.IPPROTO_TCP]


def test_a_swapped_server_is_noticed(served: Any) -> None:
    first = served([{"reply": "a"}])
    client = OpenAIModel(first.url, patience=QUICK)
    assert client.complete(ASK).content == "a"
    first.close()
    served([{"reply": "b"}], port=urlsplit(first.url).port)
    with pytest.raises(LlmFailure, match="replaced"):
        client.complete(ASK)
    client.close()


def test_an_external_endpoint_is_passed_through(served: Any, connected: Any) -> None:
    with bad_server() as upstream:
        model = OpenAIModel(upstream.url, patience=QUICK, api_key="sk-upstream")
        client = connected(served(model))
        assert client.complete(ASK).content == "fine"
        assert client.endpoint() == model.endpoint()
        assert client.endpoint().engine == "external"
        model.close()
    assert upstream.posts()[0].headers["Authorization"] == "Bearer sk-upstream"


def test_upstream_refusals_pass_through(served: Any, connected: Any) -> None:
    with bad_server(says({"error": {"message": "maximum context length is 5"}}, 400), says({}, 401)) as upstream:
        model = OpenAIModel(upstream.url, patience=QUICK)
        front = served(model)
        assert (
            json.loads(post(front, {"messages": list(ASK.messages)})[2])["error"]["code"] == "context_length_exceeded"
        )
        assert post(front, {"messages": list(ASK.messages)})[0] == 401
        model.close()


def test_a_record_of_another_version_is_refused(connected: Any) -> None:
    with bad_server(models={"data": [{"id": "m", "harnesstrain": {"engine": "x", "future": 1}}]}) as server:
        client = OpenAIModel(server.url, patience=QUICK)
        with pytest.raises(LlmFailure, match="cannot be read here"):
            client.endpoint()
        client.close()


def test_extra_fields_are_for_foreign_endpoints(served: Any) -> None:
    client = OpenAIModel(served(Fixed(Reply())).url, patience=QUICK, body={"x": 1})
    with pytest.raises(UsageError):
        client.endpoint()
    client.close()


def test_what_is_certified_can_be_published_while_it_serves(served: Callable[..., Front]) -> None:
    front = served([{"reply": "ok", "delay": 0.05}], Settings(max_running=4, deterministic=False))
    plain = front.endpoint
    client = OpenAIModel(front.url)
    assert (client.endpoint().deterministic, client.endpoint().max_running) == (False, 4)
    assert not front.publish(plain)
    assert front.publish(plain.model_copy(update={"deterministic": True, "max_running": 2, "capacity": 2}))
    again = OpenAIModel(front.url)
    said = again.endpoint()
    assert (said.deterministic, said.max_running, said.fingerprint) == (True, 2, plain.fingerprint)
    with ThreadPoolExecutor(8) as pool:
        assert {reply.content for reply in pool.map(again.complete, [ask(str(n)) for n in range(12)])} == {"ok"}
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(front.url).port, timeout=20)
    connection.request("GET", "/health")
    health = json.loads(connection.getresponse().read())
    connection.close()
    assert (health["max_running"], sum(health["crowds"][2:])) == (2, 0)  # never three at once
    assert front.publish(plain.model_copy(update={"deterministic": True, "max_running": 3, "capacity": 4}))
    assert front.endpoint.max_running == 3  # fewer are certified than it works on
    client.close()
    again.close()
