"""The GPUs of this machine, as the driver's own tool tells."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.records.base import Record

QUERY = ("name", "compute_cap", "memory.used", "memory.total")
TIMEOUT = 30.0
"""Seconds that the driver's tool may take."""
BUSY = 0.2
"""Share of a GPU's memory in use above which a model server would not find its place."""


class Gpu(Record):
    """One GPU."""

    name: str
    capability: tuple[int, int]
    """Compute capability, e.g. (9, 0).  (0, 0): not told."""
    used: int
    """MiB in use."""
    total: int
    """MiB."""


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that the driver shows; none without a driver."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if said.returncode != 0:
        return ()
    return tuple(_gpu(line) for line in said.stdout.splitlines() if line.count(",") == len(QUERY) - 1)


def required(engine: str, *, at_least: tuple[int, int] = (0, 0)) -> tuple[Gpu, ...]:
    """The GPUs here.  Raises Prerequisite: there is none, one is too old, or one is in use already."""
    found = gpus()
    if not found:
        raise Prerequisite(f"{engine} needs an NVIDIA GPU, and none is here", hint="`ht doctor` shows what there is")
    for gpu in found:
        if gpu.capability != (0, 0) and gpu.capability < at_least:
            has, needs = (".".join(map(str, one)) for one in (gpu.capability, at_least))
            raise Prerequisite(
                f"deterministic {engine} needs compute capability {needs}, and {gpu.name} has {has}",
                hint="leave --deterministic out, or use another GPU",
            )
        if gpu.total and gpu.used > BUSY * gpu.total:
            raise Prerequisite(
                f"{gpu.name} is in use: {gpu.used} of {gpu.total} MiB are taken",
                hint="`nvidia-smi` shows by whom; `ht serve-llm --stop` ends a server of ours",
            )
    return found


def hardware(found: tuple[Gpu, ...]) -> list[dict[str, Any]]:
    """The class of hardware, for a fingerprint: which GPUs, never which machine."""
    return [{"name": gpu.name, "capability": list(gpu.capability)} for gpu in found]


def _gpu(line: str) -> Gpu:
    name, capability, used, total = (part.strip() for part in line.split(","))
    return Gpu(name=name, capability=_version(capability), used=_number(used), total=_number(total))


def _version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (_number(major), _number(minor))


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
