"""Rollouts as ATIF trajectories: what is written is valid, and what is invalid is refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Outcome, Rollout, Step, StepKind, Trace
from harnesstrain.stages.export import About, read_trajectory, trajectory_of, write_trajectory
from harnesstrain.stages.export.atif import read_trajectory_file

REAL = Path(__file__).resolve().parents[3] / "shared" / "realdata"
ABOUT = About(harness="tiny", commit="c" * 40, model="m")
MINIMAL: dict[str, Any] = {
    "schema_version": "ATIF-v1.8",
    "agent": {"name": "a", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "go", "timestamp": "2026-01-01T00:00:00Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": [{"type": "text", "text": "so"}],
            "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {"x": None}}],
            "observation": {"results": [{"source_call_id": "c", "content": "y"}]},
            "metrics": {"prompt_tokens": 1, "cost_usd": 0, "logprobs": [-1, -0.5]},
        },
    ],
}


def conversed(*exchanges: Step | dict[str, Any], **more: Any) -> dict[str, Any]:
    """The trajectory of a rollout with these steps; a dict is a model call: {say: [messages], **fields}."""
    messages: dict[str, Any] = {}
    steps = []
    for index, one in enumerate(exchanges):
        if isinstance(one, Step):
            steps.append(one.model_copy(update={"index": index}))
            continue
        fields = dict(one)
        keys = []
        for message in fields.pop("say"):
            keys.append(digest(repr(message)))
            messages[keys[-1]] = message
        tools = fields.pop("tools", None)
        if tools is not None:
            messages["tools"] = tools
        steps.append(
            Step(
                index=index,
                kind=StepKind.LLM,
                messages=tuple(keys),
                tools="tools" if tools is not None else None,
                usage=Usage(prompt=7, completion=3, cached=2),
                **fields,
            )
        )
    rollout = Rollout(
        id="r1", run="run1", task="t", task_digest="d", seed=1, outcome=Outcome.SOLVED, reward=1.0, **more
    )
    made = trajectory_of(rollout, Trace(rollout="r1", steps=tuple(steps), messages=messages), ABOUT)
    text = write_trajectory(made)
    assert read_trajectory(text.encode(), "written") == made
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def run(command: str, out: bytes = b"", err: bytes = b"", code: int = 0) -> Step:
    action = json.dumps({"kind": "run", "command": command, "cwd": None})
    return Step(index=0, kind=StepKind.RUN, action=action, stdout=out, stderr=err, exit_code=code, duration=0.5)


SYSTEM = {"role": "system", "content": "be good"}
USER = {"role": "user", "content": "make a file"}


def test_a_conversation_is_written_once_in_order() -> None:
    first = {"role": "assistant", "content": "ls"}
    again = {"role": "user", "content": "a.txt"}
    found = conversed(
        {"say": [SYSTEM, USER], "content": "ls", "reasoning": "hm", "finish_reason": "stop"},
        run("ls", b"a.txt\n"),
        {"say": [SYSTEM, USER, first, again], "content": "done"},
        Step(index=0, kind=StepKind.NOTE, note='{"valid": true}'),
        Step(index=0, kind=StepKind.SUBMIT, note="that is it"),
        detail="graded",
        usage=Usage(prompt=14, completion=6, cached=4),
    )
    assert [(step["step_id"], step["source"], step["message"]) for step in found["steps"]] == [
        (1, "system", "be good"),
        (2, "user", "make a file"),
        (3, "agent", "ls"),
        (4, "agent", ""),
        (5, "user", "a.txt"),
        (6, "agent", "done"),
        (7, "agent", ""),
    ]
    called, acted, submitted = found["steps"][2], found["steps"][3], found["steps"][6]
    assert called["reasoning_content"] == "hm"
    assert (called["llm_call_count"], called["model_name"]) == (1, "m")
    assert called["metrics"] == {"prompt_tokens": 7, "completion_tokens": 3, "cached_tokens": 2}
    assert acted["llm_call_count"] == 0
    assert acted["tool_calls"][0]["arguments"] == {"command": "ls", "cwd": None}
    assert acted["observation"]["results"][0]["content"] == "a.txt\n"
    assert acted["observation"]["results"][0]["extra"]["exit_code"] == 0
    assert found["steps"][5]["extra"]["notes"] == [{"valid": True}]
    assert submitted["tool_calls"][0]["function_name"] == "submit"
    assert submitted["tool_calls"][0]["arguments"] == {"message": "that is it"}
    assert found["agent"] == {"name": "tiny", "version": "c" * 40, "model_name": "m"}
    assert (found["session_id"], found["trajectory_id"], found["notes"]) == ("run1", "r1", "graded")
    assert found["final_metrics"]["total_prompt_tokens"] == 14
    assert found["final_metrics"]["total_steps"] == 7
    assert (found["extra"]["outcome"], found["extra"]["reward"]) == ("solved", 1.0)


def test_tool_calls_get_their_results() -> None:
    calls = json.dumps([{"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}])
    said: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}
    tools = [{"type": "function", "function": {"name": "bash"}}]
    found = conversed(
        {"say": [USER], "content": None, "tool_calls": calls, "tools": tools},
        {"say": [USER, said, {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}], "content": "ok"},
        {"say": [USER, {"role": "tool", "tool_call_id": "zz", "content": "b"}], "content": "ok"},
    )
    assert found["agent"]["tool_definitions"] == tools
    asked = found["steps"][1]
    assert asked["tool_calls"] == [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}]
    assert asked["observation"] == {"results": [{"source_call_id": "c1", "content": "a.txt"}]}
    assert [step["source"] for step in found["steps"]] == ["user", "agent", "agent", "user", "agent"]
    assert found["steps"][3]["extra"] == {"role": "tool"}


def test_a_second_conversation_and_examples_are_told_apart() -> None:
    example = {"role": "assistant", "content": "like this"}
    other = {"role": "user", "content": "look for bugs"}
    found = conversed(
        {"say": [SYSTEM, USER, example, USER], "content": "a"},
        {"say": [SYSTEM, other], "content": "b"},
        {"say": [SYSTEM, USER, example, USER, {"role": "assistant", "content": "a"}, other], "content": "c"},
    )
    told = [(step["source"], step["message"], step.get("llm_call_count")) for step in found["steps"]]
    assert told == [
        ("system", "be good", None),
        ("user", "make a file", None),
        ("agent", "like this", 0),
        ("user", "make a file", None),
        ("agent", "a", 1),
        ("user", "look for bugs", None),
        ("agent", "b", 1),
        ("user", "look for bugs", None),
        ("agent", "c", 1),
    ]
    assert found["steps"][2]["is_copied_context"] is True


def test_whatever_a_harness_says_is_written_in_a_valid_form() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    calls = [
        {"id": "c", "name": "f", "arguments": "not json \ud800"},
        {"id": "c", "name": "f", "arguments": '{"x": NaN}'},
        {"id": "", "name": "", "arguments": json.dumps({"deep": deep})},
        {"id": "d", "name": "f", "arguments": "[1]"},
    ]
    image = {"type": "image_url", "image_url": {"url": "https://x.example/a.png?b"}}
    parts = [{"type": "text", "text": "\ud800"}, image, {"type": "odd", "x": [1]}, "plain"]
    found = conversed(
        {
            "say": [{"role": "user", "content": parts}, {"role": "odd"}],
            "content": "\ud800",
            "tool_calls": json.dumps(calls),
        },
        run("cat x", bytes(range(256)), b"bad", 1),
        Step(index=0, kind=StepKind.NOTE, note="[NaN, 1e999]"),
        Step(index=0, kind=StepKind.NOTE, note="not json"),
        {"say": [USER], "error": "transport: gone"},
    )
    said, odd, called, acted, _, failed = found["steps"]
    assert [part["type"] for part in said["message"]] == ["text", "image", "text", "text"]
    assert (odd["source"], odd["message"], odd["extra"]) == ("user", "", {"role": "odd"})
    assert [call["tool_call_id"] for call in called["tool_calls"]] == ["c", "step-3.1", "step-3.2", "d"]
    assert called["tool_calls"][0]["arguments"] == {"text": "not json \ufffd"}
    assert acted["observation"]["results"][0]["content"].endswith("\ufffdbad")
    assert acted["extra"]["notes"] == [["nan", "inf"], "not json"]
    assert failed["extra"]["error"] == "transport: gone"
    assert len(conversed()["steps"]) == 1
    assert conversed(Step(index=0, kind=StepKind.NOTE, note="1"))["steps"][0]["extra"] == {"notes": [1]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)
contents = (
    st.none() | st.text() | st.lists(json_values | st.dictionaries(st.text(), json_values, max_size=2), max_size=3)
)
said = st.dictionaries(
    st.sampled_from(["role", "content", "tool_calls", "tool_call_id"]),
    st.sampled_from(["user", "tool", "assistant", "system", "c"]) | contents,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(said, max_size=3), max_size=4), contents, st.binary())
def test_any_trace_gives_a_valid_trajectory(requests: list[list[Any]], content: Any, printed: bytes) -> None:
    calls = json.dumps([{"id": "c", "name": "f", "arguments": json.dumps(content)}])
    found = conversed(
        *({"say": [m | {"n": i} for i, m in enumerate(say)], "tool_calls": calls} for say in requests),
        run("x", printed),
    )
    assert [step["step_id"] for step in found["steps"]] == list(range(1, len(found["steps"]) + 1))


def refused(change: dict[str, Any]) -> str:
    """Why a trajectory with some keys replaced is refused; `steps.N.key` reaches into a step."""
    table = json.loads(json.dumps(MINIMAL))
    for path, value in change.items():
        place: Any = table
        *before, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in before:
            place = place[part]
        place[last] = value
    with pytest.raises(ConfigError) as caught:
        read_trajectory(json.dumps(table).encode(), "t.json")
    assert caught.value.hint
    return caught.value.message


def test_a_valid_one_comes_back_as_it_was() -> None:
    text = json.dumps(MINIMAL)
    made = read_trajectory(text.encode(), "t.json")
    assert json.loads(write_trajectory(made)) == MINIMAL
    for version in range(9):
        read_trajectory(json.dumps(MINIMAL | {"schema_version": f"ATIF-v1.{version}"}).encode(), "t.json")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": "ATIF-v1.9"}, "t.json: schema_version: "),
        ({"schema_version": "ATIF-v2.0"}, "schema_version: "),
        ({"foo": 1}, "foo: unknown key"),
        ({"agent.foo": 1}, "agent.foo: unknown key"),
        ({"steps": []}, "steps: "),
        ({"steps.1.step_id": 3}, "step_id 3 where 2 is due"),
        ({"steps.0.step_id": "1"}, "steps[0].step_id: "),
        ({"steps.0.source": "robot"}, "steps[0].source: "),
        ({"steps.0.timestamp": "yesterday"}, "'yesterday' is no ISO 8601 time"),
        ({"steps.0.tool_calls": []}, "a user step has no tool_calls"),
        ({"steps.0.model_name": "m"}, "a user step has no model_name"),
        ({"steps.1.llm_call_count": 0}, "has no metrics"),
        ({"steps.1.llm_call_count": -1}, "llm_call_count: "),
        ({"steps.1.metrics.prompt_tokens": 1.5}, "prompt_tokens: "),
        ({"steps.1.metrics.cost_usd": "1"}, "cost_usd: "),
        ({"steps.1.tool_calls.0.arguments": "{}"}, "arguments: "),
        ({"steps.1.tool_calls.0.tool_call_id": "d"}, "source_call_id 'c' is no tool call of its step"),
        ({"steps.1.message": [{"type": "text"}]}, "a part of type text has its text only"),
        ({"steps.1.message": [{"type": "image", "text": "x"}]}, "a part of type image has its source only"),
        ({"subagent_trajectories": [MINIMAL]}, "an embedded trajectory has no trajectory_id"),
        (
            {"subagent_trajectories": [MINIMAL | {"trajectory_id": "x"}] * 2},
            "two embedded trajectories have the id 'x'",
        ),
    ],
)
def test_invalid_ones_are_refused_with_the_reason(change: dict[str, Any], why: str) -> None:
    assert why in refused(change)


def test_files_that_are_none(tmp_path: Path) -> None:
    for data in (b"", b"{", b"[]", b"\xff", b'{"agent": NaN}', b"[" * 100_000):
        with pytest.raises(ConfigError, match="^t.json: "):
            read_trajectory(data, "t.json")
    with pytest.raises(ConfigError, match="no such file"):
        read_trajectory_file(tmp_path / "gone.json")
    with pytest.raises(ConfigError, match="cannot read"):
        read_trajectory_file(tmp_path)


@pytest.fixture
def real() -> Path:
    """A directory with real trajectories and the published JSON Schema."""
    if not (REAL / "atif").is_dir():
        pytest.skip(f"no real trajectories at {REAL}")
    return REAL


def test_real_trajectories(real: Path) -> None:
    verdicts = {}
    for path in sorted((real / "atif").iterdir()):
        try:
            made = read_trajectory_file(path)
        except ConfigError as error:
            verdicts[path.name] = error.message.removeprefix(f"{path}: ")
            continue
        assert json.loads(write_trajectory(made)) == json.loads(path.read_text())
        verdicts[path.name] = "valid"
    assert verdicts == {
        "invalid-dangling-source-call-id.json": "steps[2]: source_call_id 'zz' is no tool call of its step",
        "invalid-gap-in-step-ids.json": ("the trajectory: step_id 9 where 4 is due: they count from 1 without gaps"),
        "invalid-metrics-on-zero-llm-step.json": (
            "steps[3]: a step without a model call (llm_call_count 0) has no metrics"
        ),
        "invalid-unknown-field.json": "foo: unknown key",
        "invalid-user-step-with-tool-calls.json": "steps[1]: a user step has no tool_calls: only agent steps do",
        "minimal-v1.8.json": "valid",
    }


def test_what_is_written_fits_the_published_schema(real: Path) -> None:
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        pytest.skip("the jsonschema package is not installed")
    schema = json.loads((real / "schemas" / "harbor-0.26.0.atif_trajectory.schema.json").read_text())
    check = Draft202012Validator(schema)
    calls = json.dumps([{"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'}])
    found = conversed(
        {"say": [SYSTEM, {"role": "user", "content": [{"type": "text", "text": "x"}]}], "tool_calls": calls},
        {"say": [SYSTEM, {"role": "tool", "tool_call_id": "c1", "content": "a"}], "content": "b", "reasoning": "c"},
        run("ls", b"\xff"),
        Step(index=0, kind=StepKind.SUBMIT),
    )
    assert [error.message for error in check.iter_errors(found)] == []
    assert not check.is_valid(found | {"foo": 1})
