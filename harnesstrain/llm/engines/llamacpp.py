"""llama-server with a GGUF file, as a process of its own.

Prompt caching is off: llama-server's reuse is not bit-exact.  The deterministic settings are the plain kernel profile
(no repacking, flash attention off) and one sequence per decode.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.flags import extra_flags, served_name, weights
from harnesstrain.llm.engines.installed import check_help
from harnesstrain.llm.engines.process import Launch, ProcessModel, free_port
from harnesstrain.llm.engines.refusal import refuse

CONTEXT = 8192

_RESERVED = ("model", "host", "port", "parallel", "ctx-size", "alias", "api-key")


def llamacpp_flags(spec: EngineSpec) -> list[str]:
    """The flags that determine replies: everything but model, host and port.  Raises UsageError."""
    width = spec.max_running or 1
    options = {name: value for name, value in spec.options.items() if name != "program"}
    flags = ["--parallel", str(width), "--ctx-size", str((spec.context_length or CONTEXT) * width), "--jinja"]
    if spec.deterministic:
        if width > 1:
            raise UsageError(
                "llama-server is deterministic with one request at a time only", hint="give --max-running 1"
            )
        options.setdefault("flash-attn", "off")
        options.setdefault("no-repack", "")
    return flags + extra_flags(options, reserved=_RESERVED)


class LlamacppEngine:
    """Starts `llama-server`.  Options: its flags without the dashes, and `program` (its path)."""

    def check(self, spec: EngineSpec) -> None:
        """Look at the file, the program, the flags.  Raises UsageError, Prerequisite."""
        _ready(spec)

    def start(self, spec: EngineSpec) -> Model:
        """Start and wait until it is ready.  Raises UsageError, Prerequisite."""
        ready = _ready(spec)
        return ProcessModel(
            Launch(
                engine="llamacpp",
                command=[ready.program, *ready.words],
                port=ready.port,
                health="/health",
                identity={"flags": ready.flags, "weights": weights(ready.model)},
                context_length=spec.context_length or CONTEXT,
                max_running=spec.max_running or 1,
                body={"cache_prompt": False},
                log=spec.log,
            )
        )


@dataclass(frozen=True)
class _Ready:
    """What was found to be in order."""

    program: str
    model: str
    port: int
    flags: list[str]
    words: list[str]
    """Flags, and those that do not change replies."""


def _ready(spec: EngineSpec) -> _Ready:
    refuse(spec, "llamacpp", url=True, script=True)
    flags = llamacpp_flags(spec)
    if spec.model is None or not Path(spec.model).is_file():
        raise UsageError("the llamacpp engine needs a GGUF file", hint="give --model FILE")
    program = shutil.which(spec.options.get("program", "llama-server"))
    if program is None:
        raise Prerequisite("llama-server is not on the PATH", hint="install llama.cpp, or give its path (program)")
    port = free_port()
    words = [*_where(spec.model, port), *flags]
    check_help(program, words)
    return _Ready(program=program, model=spec.model, port=port, flags=flags, words=words)


def _where(model: str, port: int) -> list[str]:
    """Flags that do not change replies.  The alias keeps the file's directory out of the model's name."""
    return ["--model", model, "--alias", served_name(model), "--host", "127.0.0.1", "--port", str(port)]
