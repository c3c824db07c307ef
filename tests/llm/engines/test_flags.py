"""Command lines of the server programs, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.llm.base import EngineSpec
from harnesstrain.llm.engines.external import ExternalEngine
from harnesstrain.llm.engines.flags import extra_flags, served_name, weights
from harnesstrain.llm.engines.llamacpp import LlamacppEngine, llamacpp_flags
from harnesstrain.llm.engines.sglang import SglangEngine, sglang_flags
from harnesstrain.llm.engines.vllm import VllmEngine, vllm_flags


def spec(**fields: Any) -> EngineSpec:
    return EngineSpec(engine="x", **fields)


def test_sglang() -> None:
    assert sglang_flags(spec()) == ["--max-running-requests", "10", "--enable-cache-report"]
    flags = sglang_flags(spec(deterministic=True, context_length=32768, options={"mamba-ssm-dtype": "float32"}))
    text = " ".join(flags)
    for part in (
        "--enable-deterministic-inference", "--attention-backend triton", "--disable-radix-cache",
        "--random-seed 12345", "--context-length 32768", "--mamba-ssm-dtype float32",
    ):  # fmt: skip
        assert part in text
    backend = sglang_flags(spec(deterministic=True, options={"attention-backend": "fa3"}))
    assert "fa3" in backend and "triton" not in backend


@pytest.mark.parametrize("options", [
    {"enable-torch-compile": ""}, {"speculative-algorithm": "EAGLE"}, {"enable-mixed-chunk": ""},
    {"kv-cache-dtype": "fp8_e5m2"},
])  # fmt: skip
def test_sglang_refuses_what_breaks_determinism(options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        sglang_flags(spec(deterministic=True, options=options))
    sglang_flags(spec(options=options))


def test_vllm() -> None:
    assert vllm_flags(spec(max_running=3, context_length=99, options={"dtype": "bfloat16"})) == [
        "--max-num-seqs", "3", "--max-model-len", "99", "--dtype", "bfloat16",
    ]  # fmt: skip


def test_llamacpp() -> None:
    assert llamacpp_flags(spec(max_running=2, context_length=1024)) == [
        "--parallel", "2", "--ctx-size", "2048", "--jinja",
    ]  # fmt: skip
    flags = llamacpp_flags(spec(deterministic=True))
    assert "--no-repack" in flags and flags[flags.index("--flash-attn") + 1] == "off"
    with pytest.raises(UsageError):
        llamacpp_flags(spec(deterministic=True, max_running=2))


@pytest.mark.parametrize("name", ["host", "port", "api-key", "--x", "a b", "", "x;y", "X"])
def test_reserved_and_odd_flags_are_refused(name: str) -> None:
    for build in (sglang_flags, vllm_flags, llamacpp_flags):
        with pytest.raises(UsageError):
            build(spec(options={name: "1"}))


def test_flags_do_not_depend_on_their_order() -> None:
    assert extra_flags({"b": "", "a": "1"}, reserved=()) == extra_flags({"a": "1", "b": ""}, reserved=())


@pytest.mark.parametrize("engine", [SglangEngine, VllmEngine, LlamacppEngine, ExternalEngine])
def test_what_has_no_effect_is_refused(engine: Any, tmp_path: Path) -> None:
    for fields in ({"script": tmp_path}, {"max_running": 0, "model": "m"}, {}):
        with pytest.raises(UsageError):
            engine().start(spec(**fields))


def test_programs_that_are_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "m.gguf").write_bytes(b"x")
    with pytest.raises(Prerequisite, match="llama-server"):
        LlamacppEngine().start(spec(model=str(tmp_path / "m.gguf")))
    with pytest.raises(Prerequisite, match="vllm"):
        VllmEngine().start(spec(model="m"))


def test_external_promises_nothing(unused_url: str) -> None:
    with pytest.raises(UsageError, match="deterministic"):
        ExternalEngine().start(spec(url=unused_url, deterministic=True))
    with pytest.raises(UsageError, match="no option 'tiemout'"):
        ExternalEngine().start(spec(url=unused_url, options={"tiemout": "1"}))
    for value in ("0", "x", "nan", "inf", "-1"):
        with pytest.raises(UsageError, match="timeout"):
            ExternalEngine().start(spec(url=unused_url, options={"timeout": value}))
    with pytest.raises(Prerequisite, match="cannot be reached"):
        ExternalEngine().start(spec(url=unused_url, options={"deadline": "0.2"}))


@pytest.fixture
def unused_url() -> str:
    return "http://127.0.0.1:1/v1"


def test_weights_are_known_by_their_content(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"one")
    first = weights(str(file))
    assert first["name"] == "m.gguf" and len(first["sha256"]) == 64
    file.write_bytes(b"two")
    assert weights(str(file)) != first
    folder = tmp_path / "deep" / "M"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    before = weights(str(folder))
    assert before["name"] == "M" and str(tmp_path) not in str(before)
    (folder / "config.json").write_text("[]")
    assert weights(str(folder)) != before
    assert weights("org/M") == {"name": "org/M"}
    assert [served_name(str(name)) for name in (file, folder, "org/M")] == ["m.gguf", "M", "org/M"]
