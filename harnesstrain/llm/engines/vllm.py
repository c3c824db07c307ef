"""vLLM as a process of its own."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.flags import extra_flags, served_name, weights
from harnesstrain.llm.engines.gpus import Gpu, hardware, required
from harnesstrain.llm.engines.installed import check_python
from harnesstrain.llm.engines.process import Launch, ProcessModel, free_port
from harnesstrain.llm.engines.refusal import refuse

MAX_RUNNING = 8
INVARIANT = (8, 0)
"""Compute capability from which batch invariance works."""

_RESERVED = ("model", "host", "port", "max-num-seqs", "max-model-len", "api-key", "served-model-name")


def vllm_flags(spec: EngineSpec) -> list[str]:
    """The flags that determine replies: everything but model, host and port.  Raises UsageError."""
    flags = ["--max-num-seqs", str(spec.max_running or MAX_RUNNING)]
    if spec.context_length is not None:
        flags += ["--max-model-len", str(spec.context_length)]
    return flags + extra_flags(spec.options, reserved=_RESERVED)


class VllmEngine:
    """Starts `vllm serve`.  Options: flags of the installed version, without the dashes.

    Deterministic settings: the environment variable VLLM_BATCH_INVARIANT=1.
    """

    def check(self, spec: EngineSpec) -> None:
        """Look at the flags, the installed version, the GPUs.  Raises UsageError, Prerequisite."""
        _ready(spec)

    def start(self, spec: EngineSpec) -> Model:
        """Start and wait until it is ready.  Raises UsageError, Prerequisite."""
        ready = _ready(spec)
        environment = {"VLLM_BATCH_INVARIANT": "1"} if spec.deterministic else {}
        identity = {
            "version": _version(),
            "flags": ready.flags,
            "weights": weights(ready.words[0]),
            "environment": environment,
            "hardware": hardware(ready.found),
        }
        return ProcessModel(
            Launch(
                engine="vllm",
                command=[ready.program, "serve", *ready.words],
                port=ready.port,
                health="/health",
                identity=identity,
                context_length=spec.context_length,
                max_running=spec.max_running or MAX_RUNNING,
                environment=environment,
                log=spec.log,
            )
        )


@dataclass(frozen=True)
class _Ready:
    """What was found to be in order."""

    program: str
    port: int
    flags: list[str]
    words: list[str]
    """The model, flags that do not change replies, and those that do."""
    found: tuple[Gpu, ...]


def _ready(spec: EngineSpec) -> _Ready:
    refuse(spec, "vllm", url=True, script=True)
    flags = vllm_flags(spec)
    if spec.model is None:
        raise UsageError("the vllm engine needs a model", hint="give --model NAME or a directory")
    program = shutil.which("vllm")
    if program is None:
        raise Prerequisite("vllm is not installed here", hint="pip install vllm, in the environment of ht")
    found = required("vllm", at_least=INVARIANT if spec.deterministic else (0, 0))
    port = free_port()
    where = ["--served-model-name", served_name(spec.model), "--host", "127.0.0.1", "--port", str(port)]
    words = [spec.model, *where, *flags]
    check_python("vllm", _version(), words, python=_interpreter(program))
    return _Ready(program=program, port=port, flags=flags, words=words, found=found)


def _version() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:
        return "unknown"


def _interpreter(program: str) -> str:
    """The Python that a script names in its first line; ours when it names none."""
    with Path(program).open("rb") as file:
        line = file.readline(4096).decode(errors="replace").strip()
    named = line.removeprefix("#!").split()[:1] if line.startswith("#!") else []
    return named[0] if named and "python" in Path(named[0]).name else sys.executable
