"""SGLang as a process of its own."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.flags import extra_flags, served_name, weights
from harnesstrain.llm.engines.gpus import Gpu, hardware, required
from harnesstrain.llm.engines.installed import check_python
from harnesstrain.llm.engines.process import Launch, ProcessModel, free_port
from harnesstrain.llm.engines.refusal import refuse

MAX_RUNNING = 10
SEED = "12345"
HOPPER = 9
"""Major compute capability of H100 and H200."""
DETERMINISTIC = ("ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton")
"""Attention backends that the deterministic mode takes."""

_RESERVED = (
    "model-path",
    "model",
    "served-model-name",
    "host",
    "port",
    "max-running-requests",
    "context-length",
    "enable-deterministic-inference",
    "api-key",
)

_BREAKS = ("enable-torch-compile", "speculative-algorithm", "enable-mixed-chunk")
"""Options under which the deterministic mode is known not to hold."""


_HYBRID = re.compile(r'"(linear_attention|linear_num_\w+|mamba\w*|ssm\w*)"')
"""What the configuration of a model with recurrent layers speaks of."""


def attention(capability: tuple[int, int]) -> str:
    """The attention kernels that are deterministic on a GPU: fa3 on Hopper, triton on every other."""
    return "fa3" if capability[0] == HOPPER else "triton"


def sglang_flags(spec: EngineSpec, capability: tuple[int, int] = (0, 0)) -> list[str]:
    """The flags that determine replies: everything but model, host and port.

    `capability`: of the GPU, if known.  Raises UsageError.
    """
    options = dict(spec.options)
    flags = ["--max-running-requests", str(spec.max_running or MAX_RUNNING), "--enable-cache-report"]
    if spec.context_length is not None:
        flags += ["--context-length", str(spec.context_length)]
    if spec.deterministic:
        for name in _BREAKS:
            if name in options:
                raise UsageError(f"--{name} breaks deterministic inference", hint="leave one of the two out")
        if options.get("kv-cache-dtype", "auto").startswith("fp8"):
            raise UsageError("a quantised KV cache breaks deterministic inference", hint="leave kv-cache-dtype out")
        flags.append("--enable-deterministic-inference")
        options.setdefault("random-seed", SEED)
        options.setdefault("disable-radix-cache", "")
        hybrid = _recurrent(spec.model)
        options.setdefault("attention-backend", "triton" if hybrid else attention(capability))
        if options["attention-backend"] not in DETERMINISTIC:
            raise UsageError(
                f"attention backend '{options['attention-backend']}' is not deterministic",
                hint=f"one of {', '.join(DETERMINISTIC)}",
            )
        if hybrid:
            options.setdefault("mamba-ssm-dtype", "float32")
            options.setdefault("linear-attn-prefill-backend", "triton")
    if options.get("disable-radix-cache") == "off":
        del options["disable-radix-cache"]
    return flags + extra_flags(options, reserved=_RESERVED)


class SglangEngine:
    """Starts `python -m sglang.launch_server`.  Options: flags of the installed version, without the dashes.

    Deterministic settings: its deterministic mode, attention kernels that are deterministic on the GPU at hand, no
    radix cache (`disable-radix-cache=off` keeps it), a fixed seed, float32 states for models with recurrent layers.
    """

    def check(self, spec: EngineSpec) -> None:
        """Look at the flags, the installed version, the GPUs.  Raises UsageError, Prerequisite."""
        _ready(spec)

    def start(self, spec: EngineSpec) -> Model:
        """Start and wait until it is ready.  Raises UsageError, Prerequisite."""
        ready = _ready(spec)
        return ProcessModel(
            Launch(
                engine="sglang",
                command=[sys.executable, "-m", "sglang.launch_server", *ready.where, *ready.flags],
                port=ready.port,
                health="/health",
                identity={
                    "version": _version("sglang"),
                    "flags": ready.flags,
                    "weights": weights(ready.model),
                    "hardware": hardware(ready.found),
                },
                context_length=spec.context_length,
                max_running=spec.max_running or MAX_RUNNING,
                log=spec.log,
            )
        )


@dataclass(frozen=True)
class _Ready:
    """What was found to be in order."""

    model: str
    port: int
    where: list[str]
    """Flags that do not change replies."""
    flags: list[str]
    found: tuple[Gpu, ...]


def _ready(spec: EngineSpec) -> _Ready:
    refuse(spec, "sglang", url=True, script=True)
    sglang_flags(spec)
    if spec.model is None:
        raise UsageError("the sglang engine needs a model", hint="give --model NAME or a directory")
    if find_spec("sglang") is None:
        raise Prerequisite("sglang is not installed here", hint="pip install 'harnesstrain[sglang]'")
    found = required("sglang")
    flags = sglang_flags(spec, min(gpu.capability for gpu in found))
    port = free_port()
    where = ["--model-path", spec.model, "--served-model-name", served_name(spec.model)]
    where += ["--host", "127.0.0.1", "--port", str(port)]
    check_python("sglang", _version("sglang"), [*where, *flags], python=sys.executable)
    return _Ready(model=spec.model, port=port, where=where, flags=flags, found=found)


def _recurrent(model: str | None) -> bool:
    """Whether a local model has recurrent layers, as its configuration says."""
    config = Path(model or "") / "config.json"
    return model is not None and config.is_file() and _HYBRID.search(config.read_text(errors="replace")) is not None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
