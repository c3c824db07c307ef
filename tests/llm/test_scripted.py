"""The scripted model and its rules files."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import BadRequest, ConfigError, ContextOverflow, RateLimited, TransportFailure
from harnesstrain.core.records.llm import LlmRequest, Reply, Sampling, ToolCall
from harnesstrain.llm.script import Script, load_script
from harnesstrain.llm.scripted import ScriptedModel, Settings


def ask(*texts: str, **sampling: Any) -> LlmRequest:
    """A conversation that alternates between user and assistant."""
    roles = ("user", "assistant")
    messages = tuple({"role": roles[index % 2], "content": text} for index, text in enumerate(texts))
    return LlmRequest(messages=messages, sampling=Sampling(**sampling))


def test_rules_match_the_last_message_and_the_turn() -> None:
    model = ScriptedModel([
        {"match": r"^ls\b", "reply": "files"},
        {"turn": 1, "reply": "second"},
        {"match": "boom", "error": "context_overflow", "message": "too long"},
        {"reply": {"content": "c", "reasoning": "r", "tool_calls": [{"name": "run", "arguments": {"a": 1}}]}},
    ])  # fmt: skip
    assert model.complete(ask("ls -la")).content == "files"
    assert model.complete(ask("a", "b", "c")).content == "second"
    assert model.complete(ask("a", "b", "ls")).content == "files"
    with pytest.raises(ContextOverflow, match="too long"):
        model.complete(ask("boom"))
    reply = model.complete(ask("other"))
    assert (reply.content, reply.reasoning, reply.finish_reason) == ("c", "r", "tool_calls")
    assert reply.tool_calls == (ToolCall(id="call_0", name="run", arguments='{"a": 1}'),)
    assert model.calls == 5


def test_a_rule_may_answer_a_number_of_times() -> None:
    model = ScriptedModel([{"times": 2, "error": "rate_limited"}, {"times": 1, "error": "transport"}, {"reply": "ok"}])
    seen: list[Any] = []
    for _ in range(4):
        try:
            seen.append(model.complete(ask("x")).content)
        except (RateLimited, TransportFailure) as error:
            seen.append(type(error))
    assert seen == [RateLimited, RateLimited, TransportFailure, "ok"]


def test_no_rule_matches() -> None:
    with pytest.raises(BadRequest, match="no rule"):
        ScriptedModel([{"match": "a", "reply": "b"}]).complete(ask("c"))


def test_limits_are_kept() -> None:
    model = ScriptedModel([{"reply": "abcdefgh stop more"}], Settings(context_length=20))
    assert model.complete(ask("x", max_tokens=1)).content == "abcd"
    assert model.complete(ask("x", max_tokens=1)).finish_reason == "length"
    assert model.complete(ask("x", stop=("stop",))).content == "abcdefgh "
    assert model.complete(ask("x", max_tokens=99)).finish_reason == "stop"
    cut = model.complete(ask("x" * 52, max_tokens=99))
    assert (cut.content, cut.finish_reason, cut.usage.total) == ("abcdefgh sto", "length", 20)
    with pytest.raises(ContextOverflow):
        model.complete(ask("x" * 64))


def test_the_recorded_duration_is_the_scripted_one() -> None:
    model = ScriptedModel([{"match": "a", "reply": "", "delay": 0.01}, {"reply": "", "duration": 90}])
    assert model.complete(ask("a")).duration == 0.01
    assert model.complete(ask("b")).duration == 90


def test_it_is_identified_by_its_rules() -> None:
    one, two, other = (ScriptedModel([{"reply": text}]) for text in ("a", "a", "b"))
    assert one.endpoint() == two.endpoint()
    assert one.endpoint().fingerprint != other.endpoint().fingerprint


@pytest.mark.parametrize("unstable", ["text", "logprobs"])
def test_it_can_depend_on_the_batch(unstable: str) -> None:
    settings = Settings(unstable_above=2, unstable=unstable, latency=0.2, max_running=8)  # type: ignore[arg-type]
    model = ScriptedModel([{"reply": "the quick brown fox"}], settings)

    def at(width: int) -> list[Reply]:
        barrier = threading.Barrier(width)

        def one() -> Reply:
            barrier.wait(30)
            return model.complete(ask("x"))

        with ThreadPoolExecutor(width) as pool:
            return [future.result() for future in [pool.submit(one) for _ in range(width)]]

    alone = at(1)[0]
    assert at(2) == [alone, alone]
    assert model.peak == 2
    crowded = at(6)
    assert model.peak > 2
    assert any(reply != alone for reply in crowded)
    assert any(reply.content != alone.content for reply in crowded) == (unstable == "text")


def test_closing_wakes_whoever_waits() -> None:
    model = ScriptedModel([{"reply": "late", "delay": 600}])
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(model.complete, ask("x"))
        while not model.calls:
            time.sleep(0.001)
        model.close()
        assert future.result(timeout=30).finish_reason == "abort"
    with pytest.raises(TransportFailure):
        model.complete(ask("x"))


def test_a_json_lines_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.jsonl"
    path.write_text(
        '# a comment\n{"settings": {"name": "n", "context_length": 99}}\n\n{"reply": "é"}\n', encoding="utf-8"
    )
    model = ScriptedModel(path)
    assert model.complete(ask("x")).content == "é"
    assert (model.endpoint().model, model.endpoint().context_length) == ("n", 99)


def test_a_python_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.py"
    path.write_text(
        "settings = {'name': 'py'}\n"
        "def reply(request):\n"
        "    n = len(request.messages)\n"
        "    return {'content': f'{n} messages', 'tool_calls': [{'name': 'f'}]} if n > 1 else 'one'\n"
    )
    model = ScriptedModel(load_script(path))
    assert model.complete(ask("x")).content == "one"
    assert model.complete(ask("x", "y")).tool_calls[0].name == "f"
    before = model.endpoint().fingerprint
    path.write_text(path.read_text() + "# changed\n")
    assert ScriptedModel(path).endpoint().fingerprint != before


@pytest.mark.parametrize(("name", "text", "said"), [
    ("a.jsonl", "", "no rule"),
    ("a.jsonl", "{", "a.jsonl:1: not JSON"),
    ("a.jsonl", '{"reply": "a"}\n{"replay": "a"}', "a.jsonl:2: replay"),
    ("a.jsonl", '{"match": "("}', "not a regular expression"),
    ("a.jsonl", '{"match": "a"}', "either a reply or an error"),
    ("a.jsonl", '{"error": "nope"}', "error"),
    ("a.jsonl", '{"settings": {"context_length": 0}}', "context_length"),
    ("a.jsonl", "[1]", "a.jsonl:1"),
    ("a.jsonl", b"\xff\xfe\x00", "not UTF-8"),
    ("a.py", "x = 1", "no function"),
    ("a.py", "x = 1\n1 / 0", r"a\.py:2: ZeroDivisionError: division by zero"),
    ("a.py", "x = 1\nx = = 2", r"a\.py:2: SyntaxError"),
    ("a.py", "raise SystemExit(3)", r"a\.py:1: SystemExit: 3"),
    ("a.py", "settings = {'nope': 1}\ndef reply(r): return ''", "nope"),
])  # fmt: skip
def test_bad_scripts(tmp_path: Path, name: str, text: str | bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=said) as caught:
        load_script(path)
    assert "\n" not in caught.value.message


def test_a_missing_script(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_script(tmp_path / "none.jsonl")


@pytest.mark.parametrize("value", [None, 5, {"nope": 1}])
def test_a_function_that_returns_nonsense(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"the script: reply\(\) returned (None|5|\{'nope': 1\}): "):
        ScriptedModel(Script(lambda request: value, identity="x" * 64)).complete(ask("x"))


@pytest.mark.parametrize(("body", "said"), [
    ("return 7", r"rules\.py: reply\(\) returned 7: "),
    ("return helper()", r"rules\.py:2: ValueError: oops$"),
    ("return int(request)", r"rules\.py:4: TypeError: "),
    ("exit(4)", r"rules\.py:4: SystemExit: 4$"),
])  # fmt: skip
def test_a_rules_file_that_breaks_is_named_with_its_line(tmp_path: Path, body: str, said: str) -> None:
    path = tmp_path / "rules.py"
    path.write_text(f"def helper():\n    raise ValueError('oops\\nmore')\ndef reply(request):\n    {body}\n")
    with pytest.raises(ConfigError, match=said) as caught:
        ScriptedModel(path).complete(ask("x"))
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message


def test_a_rules_file_may_play_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "rules.py"
    text = "from harnesstrain.core.errors import RateLimited\ndef reply(request):\n    raise RateLimited('busy')\n"
    path.write_text(text)
    with pytest.raises(RateLimited, match="busy"):
        ScriptedModel(path).complete(ask("x"))
