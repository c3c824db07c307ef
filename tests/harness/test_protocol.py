"""Typed calls: what is refused, what is malformed, and that the SDK and the driver mean the same."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from harnesstrain import sdk
from harnesstrain.core.errors import PolicyFailure
from harnesstrain.core.records.llm import Reply, ToolCall, Usage
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.harness import protocol, wire
from harnesstrain.harness.protocol import read_call


def request(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {} if params is None else params, **more}


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"id": 1, "method": "submit"}, "jsonrpc"),
        ({"jsonrpc": "1.0", "id": 1, "method": "submit"}, "jsonrpc"),
        ({"jsonrpc": "2.0", "method": "submit"}, "id"),
        ({"jsonrpc": "2.0", "id": None, "method": "submit"}, "id"),
        ({"jsonrpc": "2.0", "id": True, "method": "submit"}, "id"),
        ({"jsonrpc": "2.0", "id": [1], "method": "submit"}, "id"),
        ({"jsonrpc": "2.0", "id": 1}, "method"),
        ({"jsonrpc": "2.0", "id": 1, "method": 3}, "method"),
        ({"jsonrpc": "2.0", "id": 1, "method": "submit", "result": 1}, "unknown members: result"),
    ],
)
def test_what_is_no_request_is_the_harness_breaking_the_protocol(message: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyFailure, match=why) as caught:
        read_call(message)
    assert not isinstance(caught.value, wire.CallRefused)


DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("method", "params", "why"),
    [
        ("initialize", {}, "protocol"),
        ("initialize", {"protocol": "1", "sdk": {"name": "x", "version": "1"}}, "protocol"),
        ("llm.complete", {}, "messages"),
        ("llm.complete", {"messages": []}, "at least one message"),
        ("llm.complete", {"messages": [{"content": "x"}]}, "message 0 has no role"),
        ("llm.complete", {"messages": ["x"]}, "messages.append.0"),
        ("llm.complete", {"messages": {"append": []}}, "prefix"),
        ("llm.complete", {"messages": {"prefix": 3, "append": []}}, "prefix"),
        ("llm.complete", {"messages": [{"role": "user"}], "temperature": 1}, "temperature"),
        ("llm.complete", {"messages": [{"role": "user"}], "tools": {}}, "tools"),
        ("llm.complete", {"messages": [{"role": "user", "content": "\ud800"}]}, "lone surrogate"),
        ("llm.complete", {"messages": [{"role": "user", "content": DEEP}]}, "levels deep"),
        ("llm.count_tokens", {}, "either messages or text"),
        ("llm.count_tokens", {"text": "x", "messages": [{"role": "user"}]}, "either messages or text"),
        ("env.run", {"command": "a\0b"}, "NUL"),
        ("env.run", {"command": ["ls"]}, "command"),
        ("env.run", {"command": "ls", "timeout": 0}, "timeout"),
        ("env.run", {"command": "ls", "timeout": -1}, "timeout"),
        ("env.run", {"command": "ls", "timeout": True}, "timeout"),
        ("env.run", {"command": "ls", "stdin": "text"}, "stdin"),
        ("env.run", {"command": "ls", "cwd": ""}, "cwd"),
        ("env.read", {"path": ""}, "path"),
        ("env.read", {"path": "a\0"}, "NUL"),
        ("env.write", {"path": "a"}, "content"),
        ("env.write", {"path": "a", "content": {"base64": "%"}}, "base64"),
        ("env.write", {"path": "a", "content": {"text": ""}, "mode": -1}, "mode"),
        ("env.write", {"path": "a", "content": {"text": ""}, "mode": 0o100644}, "mode"),
        ("submit", {"text": "x"}, "text"),
        ("submit", [], "object"),
    ],
)
def test_bad_params_are_answered_not_punished(method: str, params: Any, why: str) -> None:
    with pytest.raises(wire.CallRefused) as caught:
        read_call(request(method, params))
    answer = caught.value.answer()
    assert answer["id"] == 1
    assert answer["error"]["code"] == -32602
    assert method in answer["error"]["message"]
    assert why in answer["error"]["message"]


def test_an_unknown_method_is_32601() -> None:
    with pytest.raises(wire.CallRefused) as caught:
        read_call(request("env.exec"))
    assert caught.value.answer()["error"]["code"] == -32601


def test_both_forms_of_messages() -> None:
    user = {"role": "user", "content": "hi"}
    whole = read_call(request("llm.complete", {"messages": [user]})).params
    assert isinstance(whole, protocol.Complete)
    assert (whole.messages.prefix, whole.messages.append) == (None, (user,))
    more = read_call(request("llm.complete", {"messages": {"prefix": "h1", "append": [user]}})).params
    assert isinstance(more, protocol.Complete)
    assert (more.messages.prefix, more.messages.append) == ("h1", (user,))
    again = read_call(request("llm.complete", {"messages": {"prefix": "h1", "append": []}})).params
    assert isinstance(again, protocol.Complete)
    assert again.messages.append == ()


class Driver:
    """The driver's side of a pair of pipes: types what comes, answers from a table, keeps what it saw."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.seen: list[protocol.Call] = []
        self._answers = answers
        down, up = os.pipe(), os.pipe()
        self.harness_in, self._to = os.fdopen(down[0], "rb"), os.fdopen(down[1], "wb")
        self._from, self.harness_out = os.fdopen(up[0], "rb"), os.fdopen(up[1], "wb")
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self.harness_out.close()
        self._thread.join()
        self._from.close()
        self.harness_in.close()

    def _serve(self) -> None:
        with self._to:
            for line in self._from:
                try:
                    call = read_call(wire.decode(line))
                except wire.CallRefused as refused:
                    reply = refused.answer()
                else:
                    self.seen.append(call)
                    found = self._answers[call.method]
                    reply = wire.answer(call.id, found.pop(0) if isinstance(found, list) else found)
                self._to.write(wire.encode(reply))
                self._to.flush()


def test_the_sdk_and_the_driver_mean_the_same() -> None:
    view = protocol.TaskView(
        instruction="do it", workdir="/app", model="m", context_length=100, budgets=protocol.BudgetView(steps=3)
    )
    call = ToolCall(id="c1", name="run", arguments="{")
    reply = Reply(content="é", reasoning="r", tool_calls=(call,), finish_reason="tool_calls", usage=Usage(prompt=1))
    driver = Driver(
        {
            "initialize": protocol.initialize_result(view),
            "llm.complete": [protocol.complete_result(reply, "h1"), protocol.complete_result(Reply(), "h2")],
            "llm.count_tokens": {"tokens": 5},
            "env.run": protocol.run_result(RunResult(exit_code=3, stdout=b"\xff", stderr=b"e", truncated=True)),
            "env.read": protocol.read_result(b"\x00\xff"),
            "env.write": None,
            "note": None,
            "submit": None,
        }
    )
    episode = sdk.Episode(driver.harness_in, driver.harness_out)
    assert episode.task == sdk.Task("do it", "/app", "m", 100, sdk.Budgets(steps=3))
    first = [{"role": "user", "content": "hi"}]
    got = episode.complete(first, tools=[{"type": "function"}], tool_choice="auto", max_tokens=5)
    assert (got.content, got.reasoning, got.finish_reason, got.usage.prompt) == ("é", "r", "tool_calls", 1)
    assert got.tool_calls == (sdk.ToolCall("c1", "run", "{"),)
    episode.complete([*first, got.message()])
    assert episode.count_tokens("text") == 5
    ran = episode.run("ls", cwd="/tmp", timeout=2, stdin=b"\xfe")
    assert (ran.exit_code, ran.stdout_bytes, ran.stderr, ran.truncated, ran.timed_out) == (3, b"\xff", "e", True, False)
    assert episode.read("f") == b"\x00\xff"
    episode.write("g", b"\x00\xff", mode=0o755)
    episode.note(valid=True)
    with pytest.raises(sdk.ProtocolError):
        episode.run("a\0b")
    episode.submit("done")
    driver.close()
    params = [seen.params for seen in driver.seen]
    assert params == [
        protocol.Initialize(protocol=1, sdk=protocol.Sdk(name="ht_sdk", version=sdk.VERSION), capabilities=("trace",)),
        protocol.Complete(
            messages=protocol.Messages.model_validate(first),
            tools=({"type": "function"},),
            tool_choice="auto",
            sampling={"max_tokens": 5},
        ),
        protocol.Complete(messages=protocol.Messages(prefix="h1", append=(got.message(),))),
        protocol.CountTokens(text="text"),
        protocol.Run(command="ls", cwd="/tmp", timeout=2, stdin=b"\xfe"),
        protocol.Read(path="f"),
        protocol.Write(path="g", content=b"\x00\xff", mode=0o755),
        protocol.Note.model_validate({"valid": True}),
        protocol.Submit(message="done"),
    ]


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        (r"\ud800", False),
        (r"\ud83d\ude00", True),
        ("plain", True),
        ("é", True),
    ],
)
def test_half_a_character_is_refused_on_the_wire(text: str, accepted: bool) -> None:
    line = f'{{"jsonrpc": "2.0", "id": 1, "method": "env.run", "params": {{"command": "{text}"}}}}'
    message = wire.decode(line.encode())
    if accepted:
        assert read_call(message).method == "env.run"
    else:
        with pytest.raises(wire.CallRefused, match="surrogate"):
            read_call(message)


@pytest.mark.parametrize(("levels", "accepted"), [(50, True), (62, True), (70, False), (500, False)])
def test_deep_nesting_is_refused_on_the_wire(levels: int, accepted: bool) -> None:
    deep = "[" * levels + "]" * levels
    line = f'{{"jsonrpc": "2.0", "id": 1, "method": "note", "params": {{"deep": {deep}}}}}'
    message = wire.decode(line.encode())
    if accepted:
        assert read_call(message).method == "note"
    else:
        with pytest.raises(wire.CallRefused, match="nested"):
            read_call(message)
