"""From settings to a model: explicit URL, running server, engine in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harnesstrain.core.errors import ConfigError, NotFound, UsageError
from harnesstrain.core.records.llm import LlmRequest
from harnesstrain.llm import choice
from harnesstrain.llm.base import EngineSpec
from harnesstrain.llm.choice import chosen
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.connect import ConnectSpec, Route, Way, connect, route
from harnesstrain.llm.front import Front
from harnesstrain.llm.scripted import ScriptedModel
from harnesstrain.llm.state import ServerState, birth, write_state

ASK = LlmRequest(messages=({"role": "user", "content": "hello"},))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "rules.jsonl"
    path.write_text('{"reply": "in process"}\n')
    return path


def write(directory: Path, front: Front, **changes: Any) -> None:
    pid = os.getpid()
    state = ServerState(
        pid=pid,
        birth=birth(pid) or "",
        url=front.url,
        engine="scripted",
        asked="",
        endpoint=front.endpoint,
        fingerprint=front.endpoint.fingerprint,
        detached=True,
        since=0,
    )
    write_state(directory, state.model_copy(update=changes))


def test_the_order_of_ways(tmp_path: Path, script: Path) -> None:
    spec = ConnectSpec(script=script, state=tmp_path)
    assert route(spec) == Route(Way.IN_PROCESS, "scripted")
    with Front(ScriptedModel([{"reply": "served"}])) as front:
        write(tmp_path, front)
        assert route(spec) == Route(Way.SERVER, front.url)
        model = connect(spec.model_copy(update={"model": "ignored", "context_length": 1}))
        assert model.complete(ASK).content == "served"
        model.close()
        assert route(spec.model_copy(update={"url": "http://h/v1"})) == Route(Way.URL, "http://h/v1")
        write(tmp_path, front, birth="long ago")
        assert route(spec).way is Way.IN_PROCESS
    model = connect(spec)
    assert isinstance(model, ScriptedModel)
    assert model.complete(ASK).content == "in process"
    model.close()


def test_an_explicit_url(script: Path) -> None:
    with Front(ScriptedModel([{"reply": "there"}])) as front:
        model = connect(ConnectSpec(url=front.url, script=script, api_key="sk-canary"))
        assert isinstance(model, OpenAIModel)
        assert model.complete(ASK).content == "there"
        model.close()


def test_the_key_is_in_no_dump() -> None:
    spec = ConnectSpec(url="http://h/v1", api_key="sk-canary")
    engine = spec.engine_spec()
    assert engine.api_key == "sk-canary"
    assert "canary" not in repr(spec) + str(spec) + repr(engine) + json.dumps(spec.model_dump(mode="json"))
    assert "canary" not in engine.model_dump_json()


def test_the_key_is_in_no_validation_error() -> None:
    for record in (ConnectSpec, EngineSpec):
        for value in ({"api_key": ["sk-canary"]}, ["sk-canary"], {"api_key": "sk-canary", "nope": "sk-canary"}):
            with pytest.raises(ValidationError) as caught:
                record.model_validate(value)
            assert "canary" not in str(caught.value)


def test_what_auto_means(monkeypatch: pytest.MonkeyPatch, script: Path) -> None:
    def engine(**fields: Any) -> str:
        return chosen(EngineSpec(**fields)).engine

    monkeypatch.setattr(choice, "has_gpu", lambda: True)
    monkeypatch.setattr(choice, "find_spec", lambda name: object())
    assert engine() == "embedded"
    assert engine(url="http://h/v1") == "external"
    assert engine(script=script) == "scripted"
    assert engine(model="org/Big") == "sglang"
    assert engine(model="x.gguf") == "embedded"
    assert engine(model="qwen2.5-coder-1.5b") == "embedded"
    assert engine(engine="vllm", model="org/Big") == "vllm"
    monkeypatch.setattr(choice, "has_gpu", lambda: False)
    assert engine(model="org/Big") == "embedded"


def test_unknown_engines() -> None:
    with pytest.raises(NotFound, match="no 'scriptd'") as caught:
        connect(ConnectSpec(engine="scriptd"))
    assert caught.value.hint == "did you mean 'scripted'?"
    with pytest.raises(ConfigError):
        connect(ConnectSpec(engine="nowhere:Engine"))


def test_engines_refuse_what_they_cannot_honour(script: Path) -> None:
    for fields in (
        {"engine": "scripted"},
        {"engine": "scripted", "script": script, "options": {"x": "1"}},
        {"engine": "scripted", "script": script, "max_running": 0},
        {"engine": "external"},
    ):
        with pytest.raises(UsageError):
            connect(ConnectSpec.model_validate(fields))


def test_settings_reach_the_scripted_engine(script: Path) -> None:
    model = connect(ConnectSpec(script=script, model="named", context_length=99, max_running=3))
    endpoint = model.endpoint()
    assert (endpoint.model, endpoint.context_length, endpoint.max_running) == ("named", 99, 3)
    model.close()
