"""What a task may ask for, and what is asked in vain: GPUs, Windows, sidecars, lists of allowed hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harnesstrain.taskset.document import Document
from harnesstrain.taskset.schema import LATEST, AgentTable, ArtifactTable, EnvironmentTable, TaskToml, VerifierTable
from harnesstrain.taskset.templates import fill

COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
"""Files beside a Dockerfile that make a task one of several containers."""

_UNITS = {"": 1 / 1024**2, "k": 1 / 1024, "m": 1.0, "g": 1024.0}
_NETWORKS = {"public": "host", "no-network": "none"}


def find_problems(directory: Path, tables: TaskToml) -> tuple[str, ...]:
    """Why no sandbox of this program can run the task, in sentences; empty when one can.

    What only some sandboxes give (an image, several containers, a network) is theirs to refuse.
    """
    return (
        *_versions(tables),
        *_environment(tables.environment, "it"),
        *_phases(tables.environment, tables.agent, tables.verifier, ""),
        *_artifacts(tables.artifacts),
        *_steps(tables),
        *_beside(directory, tables),
    )


def compose_file(folder: Path) -> str | None:
    """The file in `folder` that asks for further containers."""
    return next((name for name in COMPOSE if (folder / name).exists()), None)


def _versions(tables: TaskToml) -> Iterator[str]:
    if tables.schema_number > LATEST or tables.schema_number < (1, 0):
        major, minor = tables.schema_number
        yield f"task.toml has schema {major}.{minor}; 1.0 to {LATEST[0]}.{LATEST[1]} are understood"


def _environment(table: EnvironmentTable, who: str) -> Iterator[str]:
    if table.os != "linux":
        yield f"{who} needs {table.os}"
    if table.gpus or table.gpu_types:
        yield f"{who} needs a GPU"
    if table.tpu:
        yield f"{who} needs a TPU"
    if table.mcp_servers:
        yield f"{who} needs MCP servers"
    if table.network_mode == "allowlist":
        yield f"{who} needs a network with a list of allowed hosts"
    if missing := fill(table.env).missing:
        yield f"{'its' if who == 'it' else who} environment needs variables of the host: {', '.join(missing)}"


def _phases(environment: EnvironmentTable, agent: AgentTable, verifier: VerifierTable, where: str) -> Iterator[str]:
    """`where`: "" or "step 'x': "."""
    if verifier.separate and verifier.environment is not None:
        yield from _environment(verifier.environment, f"{where}its verifier")
    if "allowlist" in (agent.network_mode, verifier.network_mode):
        yield f"{where}a phase needs a network with a list of allowed hosts"
    elif not verifier.separate and network(environment, verifier) != network(environment, agent):
        yield f"{where}its verifier needs another network than its agent"
    for one in verifier.collect:
        if one.service != "main":
            yield f"{where}it collects from another container, '{one.service}'"


def _artifacts(artifacts: list[str | ArtifactTable]) -> Iterator[str]:
    for one in artifacts:
        if not isinstance(one, str) and one.service not in (None, "main"):
            yield f"it takes an artifact from another container, '{one.service}'"


def _steps(tables: TaskToml) -> Iterator[str]:
    for step in tables.steps or ():
        where = f"step '{step.name}': "
        yield from _phases(tables.environment, step.agent, step.verifier, where)
        yield from _artifacts(step.artifacts)
        if network(tables.environment, step.agent) != network(tables.environment, tables.agent):
            yield f"{where}it needs another network than the task"
        if step.agent.user is not None and str(step.agent.user) != str(tables.agent.user):
            yield f"{where}it runs as another user than the task"


def _beside(directory: Path, tables: TaskToml) -> Iterator[str]:
    places = [("tests", tables.verifier)]
    places += [(f"steps/{step.name}/tests", step.verifier) for step in tables.steps or ()]
    for place, verifier in places:
        if verifier.separate and (name := compose_file(directory / place)):
            yield f"its verifier needs several containers ({place}/{name})"
    batch = tables.environment.os == "linux" and (directory / "tests/test.bat").exists()
    if batch and not (directory / "tests/test.sh").exists():
        yield "its verifier is a Windows batch file (tests/test.bat)"


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
