"""The Harbor task directory, as far as a single Linux container needs it.

    task.toml  instruction.md  environment/{Dockerfile,…}  tests/{test.sh,…}  solution/solve.sh

The digest of a task covers the instruction as it is shown, every byte of `environment/` and `tests/`, and each setting
that can change what an agent meets or what a grade says.  It does not cover `solution/`, `[metadata]`, `[task]`,
README files and comments: nobody who acts or grades sees them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.task import Environment, Solution, Task, Verifier
from harnesstrain.taskset import schema
from harnesstrain.taskset.base import Inspected
from harnesstrain.taskset.content import digest_directory
from harnesstrain.taskset.document import Document, read, read_text
from harnesstrain.taskset.limits import find_problems, network, size_mb
from harnesstrain.taskset.templates import fill

OWN_TABLE = "harnesstrain"
"""[metadata.harnesstrain] holds what Harbor has no key for: pass_reward."""

_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_INSTRUCTION_BYTES = 1024 * 1024


class HarborFormat:
    """Harbor's task directory, schema 1.0 to 1.4."""

    name = "harbor"

    def sniff(self, directory: Path) -> bool:
        """A task.toml, or an instruction.md that lacks one."""
        return (directory / "task.toml").exists() or (directory / "instruction.md").exists()

    def load(self, directory: Path) -> Inspected:
        """Read the task.  Raises ConfigError when its files are wrong."""
        directory = directory.resolve()
        document = read(directory / "task.toml")
        tables = schema.validate(document)
        notes = (*schema.unknown_keys(document), *_solution_notes(directory, tables.solution))
        if problems := find_problems(directory, tables):
            return Inspected(task=None, problems=problems, notes=notes)
        instruction = read_instruction(directory / "instruction.md")
        environment = _environment(document, directory, tables.environment, tables.agent)
        verifier = _verifier(directory, tables.verifier)
        pass_reward = _pass_reward(document)
        task = Task(
            name=directory.name,
            digest=digest(
                {
                    "instruction": digest_bytes(instruction.encode()),
                    "environment": environment.digest,
                    "verifier": verifier.digest,
                    "timeout": tables.agent.timeout_sec,
                    "pass_reward": pass_reward,
                }
            ),
            instruction=instruction,
            environment=environment,
            verifier=verifier,
            solution=_solution(directory, tables),
            timeout=tables.agent.timeout_sec,
            pass_reward=pass_reward,
            metadata=_metadata(tables),
        )
        return Inspected(task=task, notes=notes)


def read_instruction(path: Path) -> str:
    """The instruction as it is shown: the file's text without leading canary lines.  Raises ConfigError."""
    lines = read_text(path, _INSTRUCTION_BYTES).splitlines(keepends=True)
    start = 0
    if lines and _CANARY.fullmatch(lines[0].strip()):
        while start < len(lines) and (_CANARY.fullmatch(lines[start].strip()) or not lines[start].strip()):
            start += 1
    text = "".join(lines[start:])
    if not text.strip():
        raise ConfigError(f"{path} is empty", hint="write what the task asks for")
    return text


def _environment(
    document: Document, directory: Path, table: schema.EnvironmentTable, agent: schema.AgentTable
) -> Environment:
    folder = directory / "environment"
    builds = table.docker_image is None
    if builds and not (folder / "Dockerfile").is_file():
        document.wrong(
            "the task has neither environment/Dockerfile nor a docker_image",
            ("environment",),
            "add environment/Dockerfile",
        )
    found = Environment(
        context=folder if builds else None,
        image=table.docker_image,
        workdir=table.workdir,
        user=None if agent.user is None else str(agent.user),
        env=fill(table.env).values,
        cpus=table.cpus,
        memory_mb=size_mb(document, "memory", table.memory_mb, table.memory),
        storage_mb=size_mb(document, "storage", table.storage_mb, table.storage),
        network=network(table, agent),
        build_timeout=table.build_timeout_sec,
    )
    return found.model_copy(update={"digest": _digest(found, digest_directory(folder) if builds else "")})


def _verifier(directory: Path, table: schema.VerifierTable) -> Verifier:
    tests = directory / "tests"
    script = tests / "test.sh"
    if not script.is_file():
        raise ConfigError(f"{directory} has no verifier: tests/test.sh is missing", hint="add tests/test.sh")
    with script.open("rb") as file:
        first = file.readline(4096)
    if not first:
        raise ConfigError(f"{script} is empty", hint="write the verifier; it writes /logs/verifier/reward.txt")
    if first.endswith(b"\r\n"):
        raise ConfigError(f"{script} has CRLF line ends, which no shell runs", hint="save it with LF line ends")
    user = None if table.user is None else str(table.user)
    found = Verifier(tests=tests, timeout=table.timeout_sec, env=fill(table.env).values, user=user)
    return found.model_copy(update={"digest": _digest(found, digest_directory(tests))})


def _digest(part: Environment | Verifier, content: str) -> str:
    settings = part.model_dump(mode="json", exclude={"digest", "env"})
    env = {name: digest_bytes(value.encode()) for name, value in part.env.items()}
    return digest({"content": content, "env": env, **settings})


def _solution_notes(directory: Path, table: schema.SolutionTable) -> Iterator[str]:
    if not (directory / "solution/solve.sh").is_file():
        yield "it has no reference solution (solution/solve.sh)"
    elif missing := fill(table.env).missing:
        yield f"its reference solution needs variables of the host: {', '.join(missing)}"


def _solution(directory: Path, tables: schema.TaskToml) -> Solution | None:
    folder = directory / "solution"
    if not (folder / "solve.sh").is_file() or fill(tables.solution.env).missing:
        return None
    env = fill(tables.solution.env).values
    return Solution(path=folder, timeout=tables.agent.timeout_sec or 600.0, env=env)


def _pass_reward(document: Document) -> float:
    own = document.table.get("metadata", {}).get(OWN_TABLE, {})
    path = ("metadata", OWN_TABLE)
    if not isinstance(own, Mapping):
        document.wrong(f"metadata.{OWN_TABLE} is not a table", path)
    for key in own:
        if key != "pass_reward":
            document.wrong(f"unknown key 'metadata.{OWN_TABLE}.{key}'", (*path, key), "known: pass_reward")
    value = own.get("pass_reward", 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        document.wrong("pass_reward must be a finite number", (*path, "pass_reward"))
    return float(value)


def _metadata(tables: schema.TaskToml) -> dict[str, str]:
    found: dict[str, Any] = {}
    if tables.task is not None:
        found |= {"package": tables.task.name, "description": tables.task.description}
    found |= {key: value for key, value in tables.metadata.items() if key != OWN_TABLE}
    if tables.environment.skills_dir:
        found["skills_dir"] = tables.environment.skills_dir
    return {key: shown for key, value in found.items() if (shown := _shown(value))}


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value if _shown(item))
    return "" if isinstance(value, Mapping) else str(value)
