"""Flags are read by the installed version's own parser, and the GPU is looked at, before anything is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.core.records.llm import LlmRequest
from harnesstrain.llm.base import EngineSpec
from harnesstrain.llm.engines import sglang, vllm
from harnesstrain.llm.engines.gpus import gpus, required
from harnesstrain.llm.engines.installed import check_help, check_python
from harnesstrain.llm.engines.sglang import SglangEngine, attention, sglang_flags
from harnesstrain.llm.engines.vllm import VllmEngine
from tests.llm.engines.servers import LAUNCH, SGLANG_ARGS, VLLM_ARGS, gpu, install, package, script


def never(*args: Any, **more: Any) -> Any:
    raise AssertionError("a server was started")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a GPU, SGLang 9.9 and vLLM 8.8."""
    site = tmp_path / "site"
    install(monkeypatch, site)
    package(site, "sglang", "9.9", {"srt/server_args.py": SGLANG_ARGS, "launch_server.py": LAUNCH})
    utils = "from argparse import ArgumentParser as FlexibleArgumentParser"
    package(site, "vllm", "8.8", {"utils/argparse_utils.py": utils, "entrypoints/openai/cli_args.py": VLLM_ARGS})
    tools = gpu(tmp_path / "bin")
    script(tools / "vllm", f"#!{sys.executable}\nraise SystemExit('a server was started')\n")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tmp_path


def spec(**fields: Any) -> EngineSpec:
    return EngineSpec(engine="x", **{"model": "org/M", "deterministic": True, **fields})


def test_sglang_is_started_with_flags_that_it_knows(here: Path) -> None:
    model = SglangEngine().start(spec(log=here / "engine.log", context_length=4096))
    try:
        endpoint = model.endpoint()
        assert (endpoint.engine, endpoint.model, endpoint.max_running) == ("sglang", "org/M", 10)
        assert endpoint.deterministic is False  # nobody certified it
        assert endpoint.identity["version"] == "9.9"
        assert endpoint.identity["hardware"] == [{"name": "NVIDIA H200", "capability": [9, 0]}]
        assert "fa3" in endpoint.identity["flags"]
        assert "127.0.0.1" not in str(endpoint.identity)
        assert str(here) not in str(endpoint.identity)
        assert model.complete(LlmRequest(messages=({"role": "user", "content": "2+2?"},))).content == "four"
    finally:
        model.close()


@pytest.mark.parametrize(("options", "said"), [
    ({"no-such-flag": "1"}, "sglang 9.9 does not know --no-such-flag"),
    ({"no-such": "", "nor-this": ""}, "sglang 9.9 does not know --no-such, --nor-this|--nor-this, --no-such"),
    ({"attention-backend": "fa4"}, "sglang 9.9 refuses the flags: argument --attention-backend: invalid choice: 'fa4'"),
    ({"random-seed": ""}, "sglang 9.9 refuses the flags: argument --random-seed: expected one argument"),
])  # fmt: skip
def test_a_flag_that_this_sglang_does_not_know(
    here: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str
) -> None:
    monkeypatch.setattr(sglang, "ProcessModel", never)
    with pytest.raises(UsageError, match=said):
        SglangEngine().start(spec(options=options))


@pytest.mark.parametrize(("options", "said"), [
    ({"no-such-flag": "1"}, "vllm 8.8 does not know --no-such-flag"),
    ({"dtype": ""}, "vllm 8.8 refuses the flags: argument --dtype: expected one argument"),
])  # fmt: skip
def test_a_flag_that_this_vllm_does_not_know(
    here: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str
) -> None:
    monkeypatch.setattr(vllm, "ProcessModel", never)
    with pytest.raises(UsageError, match=said):
        VllmEngine().start(spec(options=options))
    with pytest.raises(AssertionError, match="a server was started"):
        VllmEngine().start(spec(options={"dtype": "bfloat16"}))


def test_a_package_that_cannot_be_loaded_or_keeps_its_parser_elsewhere(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = here / "site"
    (site / "sglang" / "__init__.py").write_text("raise ImportError('libcuda.so.1: cannot open')")
    monkeypatch.setattr(sglang, "ProcessModel", never)
    with pytest.raises(Prerequisite, match=r"sglang 9.9 cannot be loaded: ImportError: libcuda.so.1"):
        SglangEngine().start(spec())
    (site / "sglang" / "__init__.py").write_text("import os; os._exit(3)")
    with pytest.raises(Prerequisite, match="sglang 9.9 cannot be loaded"):
        SglangEngine().start(spec())
    (site / "sglang" / "__init__.py").write_text("print('welcome')")
    (site / "sglang" / "srt" / "server_args.py").write_text("")
    assert not check_python("sglang", "9.9", ["--model-path", "m"], python=sys.executable)
    assert "the flags were not checked" in caplog.text


def test_gpus_are_looked_at_first(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(one.name, one.capability) for one in gpus()] == [("NVIDIA H200", (9, 0))]
    monkeypatch.setattr(sglang, "ProcessModel", never)
    gpu(here / "bin", "NVIDIA A100, 8.0, 70000, 81920")
    with pytest.raises(Prerequisite, match="NVIDIA A100 is in use: 70000 of 81920 MiB"):
        SglangEngine().start(spec())
    gpu(here / "bin", "Tesla T4, 7.5, 0, 15360")
    with pytest.raises(Prerequisite, match=r"deterministic vllm needs compute capability 8.0, and Tesla T4 has 7.5"):
        VllmEngine().start(spec())
    script(here / "bin" / "nvidia-smi", "#!/bin/sh\nexit 9\n")
    assert gpus() == ()
    for engine in (SglangEngine, VllmEngine):
        with pytest.raises(Prerequisite, match="needs an NVIDIA GPU, and none is here"):
            engine().start(spec())
    gpu(here / "bin", "Odd, [N/A], [N/A], [N/A]")
    assert required("sglang", at_least=(8, 0))[0].capability == (0, 0)


def test_kernels_follow_the_gpu_and_the_model(tmp_path: Path) -> None:
    assert [attention(one) for one in ((9, 0), (8, 6), (10, 0), (12, 0), (0, 0))] == ["fa3", *["triton"] * 4]
    plain = sglang_flags(spec(), (9, 0))
    assert "--mamba-ssm-dtype" not in plain and "--disable-radix-cache" in plain
    assert "--disable-radix-cache" not in sglang_flags(spec(options={"disable-radix-cache": "off"}))
    (tmp_path / "config.json").write_text('{"layer_types": ["linear_attention", "full_attention"]}')
    text = " ".join(sglang_flags(spec(model=str(tmp_path)), (9, 0)))
    for part in ("--mamba-ssm-dtype float32", "--linear-attn-prefill-backend triton", "--attention-backend triton"):
        assert part in text
    with pytest.raises(UsageError, match="'torch_native' is not deterministic"):
        sglang_flags(spec(options={"attention-backend": "torch_native"}))


def test_llama_server_is_asked_for_its_help(tmp_path: Path) -> None:
    program = script(tmp_path / "llama-server", "#!/bin/sh\necho 'usage: --port N  -np, --parallel N  --jinja'\n")
    assert check_help(str(program), ["--port", "1", "--parallel", "2"])
    with pytest.raises(UsageError, match="this llama-server does not know --no-repack"):
        check_help(str(program), ["--port", "1", "--no-repack"])
    mute = script(tmp_path / "mute", "#!/bin/sh\nexit 1\n")
    assert not check_help(str(mute), ["--no-repack"])
