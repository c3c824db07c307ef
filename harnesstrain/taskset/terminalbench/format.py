"""A task directory of the older Terminal-Bench format → Task.

The digest of a task covers the instruction as it is shown, every byte of the build context and of the tests, and each
setting that can change what an agent meets or what a grade says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.task import Environment, Solution, Task, Verifier
from harnesstrain.taskset.base import Inspected
from harnesstrain.taskset.content import digest_directory
from harnesstrain.taskset.document import read_text
from harnesstrain.taskset.instruction import without_canary
from harnesstrain.taskset.terminalbench import keystrokes
from harnesstrain.taskset.terminalbench.compose import Client, read_client
from harnesstrain.taskset.terminalbench.taskfile import TaskYaml, read_task
from harnesstrain.taskset.terminalbench.unfold import RUN_TESTS, Parts, copied_by_name, unfold
from harnesstrain.taskset.terminalbench.yamlfile import load, read_yaml

TASK = "task.yaml"
COMPOSE = "docker-compose.yaml"
_SCRIPT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class _Solution:
    """How the reference solution is run."""

    text: str | None
    """Of solve.sh; None: there is none that can be run."""
    note: str | None = None


class TerminalBenchFormat:
    """Terminal-Bench tasks before version 2: task.yaml, docker-compose.yaml, run-tests.sh."""

    name = "terminal-bench"

    def sniff(self, directory: Path) -> bool:
        """A task.yaml."""
        return (directory / TASK).is_file()

    def load(self, directory: Path) -> Inspected:
        """Read the task.  Raises ConfigError when its files are wrong or missing."""
        directory = directory.resolve()
        tables = read_task(read_yaml(directory / TASK))
        _need(directory, COMPOSE, RUN_TESTS)
        client = read_client(read_yaml(directory / COMPOSE))
        if client.dockerfile is not None:
            _need(directory, client.dockerfile)
        problems = list(client.problems)
        if (directory / "tests/test.sh").exists():
            problems.append("its tests/ holds a test.sh of its own")
        _check_script(directory / RUN_TESTS)
        solution = _solution(directory)
        notes = tuple(_notes(directory, tables, client, solution))
        if problems:
            return Inspected(task=None, problems=tuple(problems), notes=notes)
        parts = unfold(directory, client.dockerfile, solution.text)
        return Inspected(task=_task(directory.name, tables, client, parts), notes=notes)


def _task(name: str, tables: TaskYaml, client: Client, parts: Parts) -> Task:
    instruction = without_canary(tables.instruction)
    environment = _environment(client, parts)
    verifier = _verifier(tables, parts)
    timeout = tables.max_agent_timeout_sec
    return Task(
        name=name,
        digest=digest(
            {
                "instruction": digest_bytes(instruction.encode()),
                "environment": environment.digest,
                "verifier": verifier.digest,
                "timeout": timeout,
            }
        ),
        instruction=instruction,
        environment=environment,
        verifier=verifier,
        solution=None if parts.solution is None else Solution(path=parts.solution, timeout=timeout),
        timeout=timeout,
        metadata=_metadata(tables),
    )


def _environment(client: Client, parts: Parts) -> Environment:
    found = Environment(
        context=parts.environment,
        image=client.image,
        workdir=client.workdir,
        user=client.user,
        env=client.env,
        cpus=client.cpus,
        memory_mb=client.memory_mb,
        network=client.network,
    )
    content = "" if parts.environment is None else digest_directory(parts.environment)
    settings = [found.image, found.workdir, found.user, found.env, found.cpus, found.memory_mb, found.network]
    return found.model_copy(update={"digest": digest({"content": content, "settings": settings})})


def _verifier(tables: TaskYaml, parts: Parts) -> Verifier:
    found = Verifier(tests=parts.tests, timeout=tables.max_test_timeout_sec, parser=tables.parser_name)
    settings = [found.timeout, found.parser]
    return found.model_copy(update={"digest": digest({"content": digest_directory(parts.tests), "settings": settings})})


def _need(directory: Path, *names: str) -> None:
    missing = [name for name in names if not (directory / name).is_file()]
    if missing:
        hint = f"a task has {TASK}, {COMPOSE}, a Dockerfile, {RUN_TESTS} and tests/; fetch the whole directory"
        raise ConfigError(f"{directory} is only part of a task: {' and '.join(missing)} missing", hint=hint)


def _check_script(path: Path) -> None:
    with path.open("rb") as file:
        first = file.readline(4096)
    if not first:
        raise ConfigError(f"{path} is empty", hint="it runs the tests and prints their results")
    if first.endswith(b"\r\n"):
        raise ConfigError(f"{path} has CRLF line ends, which no shell runs", hint="save it with LF line ends")


def _solution(directory: Path) -> _Solution:
    script, typed = directory / "solution.sh", directory / "solution.yaml"
    if script.is_file():
        return _Solution(read_text(script, _SCRIPT_BYTES))
    if not typed.is_file():
        return _Solution(None, "it has no reference solution (solution.sh or solution.yaml)")
    try:
        text = keystrokes.script(load(read_text(typed, _SCRIPT_BYTES), typed))
    except ValueError as error:
        raise ConfigError(f"{typed}: {error}", hint="it is a list of {command: …}") from None
    return _Solution(text, None if text else "its reference solution is typed key by key, which no script can do")


def _notes(directory: Path, tables: TaskYaml, client: Client, solution: _Solution) -> list[str]:
    found = list(client.notes)
    if solution.note:
        found.append(solution.note)
    if tables.run_tests_in_same_shell:
        found.append("its tests run in a shell of their own, though run_tests_in_same_shell is set")
    if client.dockerfile is not None and (named := copied_by_name(directory / client.dockerfile)):
        found.append(f"its Dockerfile copies {', '.join(sorted(named))} to where the harness can read it")
    return found


def _metadata(tables: TaskYaml) -> dict[str, str]:
    found = {
        "difficulty": tables.difficulty,
        "category": tables.category,
        "tags": ", ".join(tables.tags or ()),
        "author_name": tables.author_name,
        "author_email": tables.author_email,
        "parser_name": tables.parser_name,
        "estimated_duration_sec": tables.estimated_duration_sec,
        "expert_time_estimate_min": tables.expert_time_estimate_min,
        "junior_time_estimate_min": tables.junior_time_estimate_min,
    }
    return {key: f"{value:g}" if isinstance(value, float) else value for key, value in found.items() if value}
