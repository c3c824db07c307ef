"""Which engine `auto` means on this machine."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from harnesstrain.llm.base import EngineSpec

AUTO = "auto"


def chosen(spec: EngineSpec) -> EngineSpec:
    """`spec` with its engine named.

    `auto` is external where a URL is given, scripted where a script is, sglang where there are a GPU, sglang and the
    name of a model that is no GGUF file or catalogue entry, and embedded otherwise.
    """
    if spec.engine != AUTO:
        return spec
    return spec.model_copy(update={"engine": _choose(spec)})


def _choose(spec: EngineSpec) -> str:
    if spec.url is not None:
        return "external"
    if spec.script is not None:
        return "scripted"
    if spec.model is not None and not _embeddable(spec.model) and has_gpu() and find_spec("sglang") is not None:
        return "sglang"
    return "embedded"


def has_gpu() -> bool:
    """Whether an NVIDIA GPU and its driver are here."""
    return Path("/dev/nvidiactl").exists() and shutil.which("nvidia-smi") is not None


def _embeddable(model: str) -> bool:
    from harnesstrain.llm.models.catalogue import ENTRIES

    return model.endswith(".gguf") or any(entry.name == model for entry in ENTRIES)
