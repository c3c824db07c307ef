"""SGLang as a process of its own."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.flags import extra_flags, served_name, weights
from harnesstrain.llm.engines.process import Launch, ProcessModel, free_port
from harnesstrain.llm.engines.refusal import refuse

MAX_RUNNING = 10
SEED = "12345"

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


def sglang_flags(spec: EngineSpec) -> list[str]:
    """The flags that determine replies: everything but model, host and port.  Raises UsageError."""
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
        options.setdefault("attention-backend", "triton")
        options.setdefault("random-seed", SEED)
        options.setdefault("disable-radix-cache", "")
    return flags + extra_flags(options, reserved=_RESERVED)


class SglangEngine:
    """Starts `python -m sglang.launch_server`.  Options: flags of the installed version, without the dashes."""

    def start(self, spec: EngineSpec) -> Model:
        """Start and wait until it is ready.  Raises UsageError, Prerequisite."""
        refuse(spec, "sglang", url=True, script=True)
        flags = sglang_flags(spec)
        if spec.model is None:
            raise UsageError("the sglang engine needs a model", hint="give --model NAME or a directory")
        if find_spec("sglang") is None:
            raise Prerequisite("sglang is not installed here", hint="pip install 'harnesstrain[sglang]'")
        port = free_port()
        where = ["--model-path", spec.model, "--served-model-name", served_name(spec.model)]
        where += ["--host", "127.0.0.1", "--port", str(port)]
        return ProcessModel(
            Launch(
                engine="sglang",
                command=[sys.executable, "-m", "sglang.launch_server", *where, *flags],
                port=port,
                health="/health",
                identity={"version": _version("sglang"), "flags": flags, "weights": weights(spec.model)},
                context_length=spec.context_length,
                max_running=spec.max_running or MAX_RUNNING,
                log=spec.log,
            )
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
