"""What a model can be named by, and what of [llm] goes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError, HtError, NotFound, UsageError
from harnesstrain.core.sections import LlmSection
from harnesstrain.core.settings import load
from harnesstrain.measure.endpoint import connect_spec
from harnesstrain.measure.endpoints import NamedModel, named_model, shown_url

LLM = """\
[llm]
url = "http://own.example.org:8000/v1"
model = "own"
api_key_env = "OWN_KEY"
script = "never.jsonl"
max_running = 3
context_length = 2048
deadline = 9
[llm.sampling]
temperature = 0.5
"""
TABLES = """\
[endpoints.far]
url = "https://far.example.org/v1"
api_key_env = "FAR_KEY"
context_length = 8192
[endpoints.rules]
script = "rules.jsonl"
[endpoints.smollm2-135m]
engine = "vllm"
model = "mine"
[endpoints.none]
[endpoints.both]
url = "http://h/v1"
engine = "embedded"
"""


def named(place: Path, text: str, tables: str = TABLES) -> NamedModel:
    (place / "ht.toml").write_text(LLM + tables)
    (place / "rules.jsonl").write_text('{"reply": "ok"}\n')
    (place / "weights.gguf").write_bytes(b"GGUF")
    return named_model(load(place, {}, {}), text, place)


def says(llm: LlmSection) -> dict[str, object]:
    """What names the model, without what is unset."""
    keys = ("engine", "url", "model", "api_key_env", "script", "max_running")
    return {key: value for key in keys if (value := getattr(llm, key)) is not None}


def test_each_form_names_its_model(tmp_path: Path) -> None:
    rules = tmp_path / "rules.jsonl"
    forms: dict[str, dict[str, object]] = {
        "far": {"engine": "external", "url": "https://far.example.org/v1", "api_key_env": "FAR_KEY"},
        "rules": {"engine": "scripted", "script": rules},
        "http://h:1/v1": {"engine": "external", "url": "http://h:1/v1"},
        "http://h:1/v1#m/n": {"engine": "external", "url": "http://h:1/v1", "model": "m/n"},
        "embedded": {"engine": "embedded"},
        "embedded:smollm2-135m": {"engine": "embedded", "model": "smollm2-135m"},
        "embedded:weights.gguf": {"engine": "embedded", "model": str(tmp_path / "weights.gguf")},
        "sglang:Qwen/Qwen3-32B": {"engine": "sglang", "model": "Qwen/Qwen3-32B"},
        "scripted:rules.jsonl": {"engine": "scripted", "script": rules},
        "qwen2.5-coder-0.5b": {"engine": "embedded", "model": "qwen2.5-coder-0.5b"},
        "smollm2-135m": {"engine": "vllm", "model": "mine"},
        "rules.jsonl": {"engine": "scripted", "script": rules},
        "weights.gguf": {"engine": "embedded", "model": str(tmp_path / "weights.gguf")},
    }
    for text, expected in forms.items():
        model = named(tmp_path, text)
        assert says(model.llm) == expected, text
        assert model.name == text
        assert model.llm.sampling.temperature == 0.5, text
        assert (model.llm.context_length, model.llm.deadline) == (8192 if text == "far" else 2048, 9.0), text
    own = named(tmp_path, "llm")
    assert (own.llm.url, own.llm.max_running) == ("http://own.example.org:8000/v1", 3)


def test_a_key_goes_to_its_own_server_alone(tmp_path: Path) -> None:
    for text, key in {
        "http://own.example.org:8000/v1#other": "OWN_KEY",
        "http://own.example.org:8001/v1": None,
        "https://own.example.org:8000/v1": None,
        "http://own.example.org.evil.example:8000/v1": None,
        "http://own.example.org:8000@evil.example/v1": None,
        "embedded": None,
        "rules": None,
    }.items():
        try:
            found = named(tmp_path, text).llm.api_key_env
        except UsageError:  # a password in the URL
            found = None
        assert found == key, text
    spec = connect_spec(load(tmp_path, {}, {}), tmp_path, {"OWN_KEY": "k"})
    assert spec.api_key == "k"


def test_a_url_is_shown_without_user_and_query(tmp_path: Path) -> None:
    assert named(tmp_path, "http://user@h:8/v1?key=secret#m").name == "http://h:8/v1#m"
    assert shown_url("http://[::1]:8000/v1") == "http://[::1]:8000/v1"
    with pytest.raises(UsageError) as caught:
        named(tmp_path, "http://user:secret@h/v1")
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        ("fra", NotFound, "did you mean 'far'?"),
        ("embeded", NotFound, "did you mean 'embedded'?"),
        (
            "nothing-like-it",
            NotFound,
            "an endpoint is a URL, ENGINE:MODEL, a rules file, or [endpoints.NAME] in ht.toml",
        ),
        ("gone.jsonl", NotFound, "an endpoint is"),
        ("scripted:gone.jsonl", NotFound, "--endpoint scripted:FILE"),
        ("scripted", NotFound, "--endpoint scripted:FILE"),
        ("none", ConfigError, "say url, script, model or engine"),
        ("both", ConfigError, "leave one of them out"),
        ("http://", UsageError, "http://HOST:PORT/v1"),
        ("http://h:port/v1", UsageError, "http://HOST:PORT/v1"),
    ],
)
def test_what_names_nothing_is_said(tmp_path: Path, text: str, kind: type[HtError], hint: str) -> None:
    with pytest.raises(kind) as caught:
        named(tmp_path, text)
    assert caught.value.exit_code == 2
    assert (caught.value.hint or "").startswith(hint)


def test_no_table_takes_the_configured_models_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has the name of the configured model"):
        named(tmp_path, "far", TABLES + "[endpoints.llm]\nengine = 'embedded'\n")
