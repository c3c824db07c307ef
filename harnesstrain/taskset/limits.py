"""What a task may ask for, and what is asked in vain: several containers, several steps, GPUs, Windows, sidecars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harnesstrain.taskset.document import Document
from harnesstrain.taskset.schema import LATEST, AgentTable, EnvironmentTable, TaskToml, VerifierTable
from harnesstrain.taskset.templates import fill

COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
"""Files in environment/ that make a task one of several containers."""

_UNITS = {"": 1 / 1024**2, "k": 1 / 1024, "m": 1.0, "g": 1024.0}
_NETWORKS = {"public": "host", "no-network": "none"}


def find_problems(directory: Path, tables: TaskToml) -> tuple[str, ...]:
    """Why the task cannot run in one Linux container, in sentences; empty when it can."""
    return (*_versions(tables), *_environment(directory, tables.environment), *_phases(tables))


def _versions(tables: TaskToml) -> Iterator[str]:
    if tables.schema_number > LATEST or tables.schema_number < (1, 0):
        major, minor = tables.schema_number
        yield f"task.toml has schema {major}.{minor}; 1.0 to {LATEST[0]}.{LATEST[1]} are understood"
    if tables.steps:
        yield f"it has {len(tables.steps)} steps"


def _environment(directory: Path, table: EnvironmentTable) -> Iterator[str]:
    folder = directory / "environment"
    if compose := next((name for name in COMPOSE if (folder / name).exists()), None):
        yield f"it needs several containers (environment/{compose})"
    if table.os != "linux":
        yield f"it needs {table.os}"
    if table.gpus or table.gpu_types:
        yield "it needs a GPU"
    if table.tpu:
        yield "it needs a TPU"
    if table.mcp_servers:
        yield "it needs MCP servers"
    if table.healthcheck:
        yield "it waits for a health check"
    if table.network_mode == "allowlist":
        yield "it needs a network with a list of allowed hosts"
    if missing := fill(table.env).missing:
        yield f"its environment needs variables of the host: {', '.join(missing)}"
    if table.docker_image and not (folder / "Dockerfile").exists() and _holds_files(folder):
        yield "it adds the files of environment/ to a ready image"


def _phases(tables: TaskToml) -> Iterator[str]:
    verifier: VerifierTable = tables.verifier
    if verifier.environment_mode == "separate" or (verifier.environment is not None and not verifier.environment_mode):
        yield "it is graded in a container of its own"
    if verifier.collect:
        yield "it collects files before grading ([[verifier.collect]])"
    if missing := fill(verifier.env).missing:
        yield f"its verifier needs variables of the host: {', '.join(missing)}"
    if tables.agent.network_mode == "allowlist" or verifier.network_mode == "allowlist":
        yield "a phase needs a network with a list of allowed hosts"
    elif network(tables.environment, verifier) != network(tables.environment, tables.agent):
        yield "its verifier needs another network than its agent"


def _holds_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def network(table: EnvironmentTable, phase: AgentTable | VerifierTable) -> str:
    """`none` or `host` in a phase.  Harbor's default is a public network: a task that needs none says `no-network`."""
    mode = phase.network_mode or table.network_mode
    if mode is None:
        mode = "no-network" if table.allow_internet is False else "public"
    return _NETWORKS.get(mode, mode)


def size_mb(document: Document, name: str, number: int | None, text: str | None) -> int | None:
    """Megabytes from `NAME_mb` or the deprecated text `NAME`.  Raises ConfigError when both are there and differ."""
    if text is None:
        return number
    found = re.fullmatch(r"([\d.]+)\s*([kmg]?)b?", text.strip().lower())
    megabytes = max(1, round(float(found[1]) * _UNITS[found[2]])) if found else 0
    if number is not None and number != megabytes:
        document.wrong(f"environment.{name} and {name}_mb differ", ("environment", name), f"keep {name}_mb alone")
    return megabytes
