"""Each method of an episode: what goes over the wire, what comes back, what is raised."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harnesstrain import sdk
from harnesstrain.harness.protocol import read_call
from tests.sdk.peer import Peer, Refusal, completion

HELLO = [{"role": "user", "content": "hi"}]
RAN = {"exit_code": 0, "stdout": {"text": ""}, "stderr": {"text": ""}, "timed_out": False, "truncated": False}


def answers(result: Any) -> Any:
    return lambda method, params: result


def test_the_task_is_what_the_driver_told() -> None:
    with Peer(answers(None)) as peer:
        task = peer.episode.task
    assert (task.instruction, task.workdir, task.model, task.context_length) == ("Do it.", "/app", "m", 4096)
    assert task.budgets == sdk.Budgets(steps=8, tokens=None, seconds=None, max_tokens=160)


def test_a_reply_has_all_its_parts() -> None:
    call = {"id": "c1", "name": "run", "arguments": '{"command": '}
    with Peer(answers(completion("text", reasoning="why", tool_calls=[call], finish_reason="length"))) as peer:
        reply = peer.episode.complete(HELLO, tools=[{"type": "function"}], tool_choice="auto", temperature=0.5)
    assert peer.calls == [
        (
            "llm.complete",
            {
                "messages": HELLO,
                "tools": [{"type": "function"}],
                "tool_choice": "auto",
                "sampling": {"temperature": 0.5},
            },
        )
    ]
    assert (reply.content, reply.reasoning, reply.finish_reason) == ("text", "why", "length")
    assert reply.tool_calls == (sdk.ToolCall("c1", "run", '{"command": '),)
    assert reply.usage == sdk.Usage(prompt=3, cached=1, completion=2, reasoning=0)
    assert reply.message()["tool_calls"][0]["function"] == {"name": "run", "arguments": '{"command": '}


def test_options_that_are_not_given_are_not_sent() -> None:
    with Peer(lambda method, params: completion() if method == "llm.complete" else RAN) as peer:
        peer.episode.complete(HELLO)
        peer.episode.run("true")
    assert [sorted(params) for _, params in peer.calls] == [["messages"], ["command"]]


@pytest.mark.parametrize("data", [b"", b"plain\n", "naïve ☃".encode(), b"\xff\x00\xfe", bytes(range(256))])
def test_bytes_cross_unchanged_in_both_directions(data: bytes) -> None:
    held: dict[str, Any] = {}

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "env.write":
            held["content"] = params["content"]
            return None
        if method == "env.read":
            return {"content": held["content"]}
        return {**RAN, "stdout": params["stdin"], "stderr": params["stdin"]}

    with Peer(answer) as peer:
        peer.episode.write("f", data, mode=0o600)
        assert peer.episode.read("f") == data
        assert peer.episode.read_text("f") == data.decode("utf-8", "replace")
        ran = peer.episode.run("cat", stdin=data)
    assert (ran.stdout_bytes, ran.stderr_bytes) == (data, data)
    assert ran.stdout == data.decode("utf-8", "replace")
    assert peer.calls[0][1]["mode"] == 0o600
    assert set(held["content"]) == ({"base64"} if b"\xff" in data else {"text"})


def test_a_command_has_its_options() -> None:
    result = {**RAN, "exit_code": 124, "timed_out": True, "truncated": True}
    with Peer(answers(result)) as peer:
        ran = peer.episode.run("sleep 9", cwd="/tmp", timeout=1.5, stdin="x")
    assert peer.calls[0][1] == {"command": "sleep 9", "cwd": "/tmp", "timeout": 1.5, "stdin": {"text": "x"}}
    assert (ran.exit_code, ran.timed_out, ran.truncated) == (124, True, True)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("context_overflow", sdk.ContextOverflow),
        ("rate_limited", sdk.RateLimited),
        ("transport", sdk.TransportError),
        ("file_fault", sdk.FileFault),
        ("bad_params", sdk.ProtocolError),
        ("method_not_found", sdk.ProtocolError),
        ("something_new", sdk.ProtocolError),
    ],
)
def test_errors_are_typed_and_the_episode_goes_on(kind: str, error: type[sdk.HarnessError]) -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "env.read":
            raise Refusal(kind, errno="ENOENT")
        return RAN

    with Peer(answer) as peer:
        with pytest.raises(error) as caught:
            peer.episode.read("gone")
        assert type(caught.value) is error
        assert (caught.value.kind, caught.value.data["errno"]) == (kind, "ENOENT")
        assert peer.episode.run("true").exit_code == 0


@pytest.mark.parametrize("reason", ["step_limit", "token_limit", "time_limit"])
def test_a_spent_budget_cannot_be_swallowed_by_accident(reason: str) -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        raise Refusal("episode_over", reason=reason)

    with Peer(answer) as peer, pytest.raises(sdk.EpisodeOver) as caught:
        try:
            peer.episode.run("true")
        except Exception:
            pytest.fail("an `except Exception` caught the end of the episode")
    assert (caught.value.reason, caught.value.code) == (reason, 0)


def test_nothing_is_sent_after_submit() -> None:
    with Peer(answers(None)) as peer:
        peer.episode.submit("done")
        with pytest.raises(sdk.EpisodeOver) as caught:
            peer.episode.note(late=True)
    assert caught.value.reason == "submitted"
    assert peer.calls == [("submit", {"message": "done"})]


def test_a_driver_that_hangs_up_ends_the_episode() -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        peer.hang_up()

    with Peer(answer) as peer:
        for _ in range(2):
            with pytest.raises(sdk.EpisodeOver):
                peer.episode.run("true")
    assert len(peer.calls) == 1


def test_another_protocol_is_refused() -> None:
    class Other(Peer):
        def _serve(self) -> None:
            request = json.loads(self.requests.readline())
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": {"protocol": 2, "task": {}}}
            self.answers.write(json.dumps(answer).encode() + b"\n")
            self.answers.close()

    with pytest.raises(sdk.ProtocolError, match="protocol 2"), Other(answers(None)):
        pass


def test_every_message_is_one_that_the_driver_accepts() -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        results = {"llm.complete": completion(), "llm.count_tokens": {"tokens": 1}, "env.run": RAN}
        return results.get(method, {"content": {"text": ""}} if method == "env.read" else None)

    with Peer(answer) as peer:
        episode = peer.episode
        episode.complete(HELLO, tools=[{"type": "function"}], tool_choice={"type": "function"}, temperature=1)
        episode.complete([*HELLO, {"role": "assistant", "content": "ok\u2028\n"}])
        assert episode.count_tokens("text") == 1
        assert episode.count_tokens(HELLO) == 1
        episode.run("true", cwd="/", timeout=3, stdin=b"\xff")
        episode.read("f")
        episode.write("f", "text", mode=0o755)
        episode.note(valid=True, nested={"a": [1, None]})
        episode.submit()
    assert len(peer.lines) == 10
    for number, line in enumerate(peer.lines, start=1):
        call = read_call(json.loads(line))
        assert call.id == number
    assert {method for method, _ in peer.calls} | {"initialize"} == {
        read_call(json.loads(line)).method for line in peer.lines
    }
