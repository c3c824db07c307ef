"""The Harbor task directory.

    task.toml  instruction.md  environment/{Dockerfile,…}  tests/{test.sh,…}  solution/solve.sh
    steps/NAME/{instruction.md,tests/,solution/,workdir/}     tasks of several steps

The digest of a task covers each instruction as it is shown, every byte of `environment/`, `tests/` and `steps/` but the
solutions, and each setting that can change what an agent meets or what a grade says.  It does not cover `solution/`,
`[metadata]`, `[task]`, README files and comments: nobody who acts or grades sees them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.records.task import REWARD, Task
from harnesstrain.taskset import parts, schema
from harnesstrain.taskset.base import Inspected
from harnesstrain.taskset.document import Document, read
from harnesstrain.taskset.instruction import read_instruction
from harnesstrain.taskset.limits import find_problems
from harnesstrain.taskset.steps import FOLDER, read_steps, separate
from harnesstrain.taskset.templates import fill

OWN_TABLE = "harnesstrain"
"""[metadata.harnesstrain] holds what Harbor has no key for: pass_reward."""

IGNORES = ".harborignore"


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
        notes = (*schema.unknown_keys(document), *_solution_notes(directory, tables), *_ignore_notes(directory))
        if problems := find_problems(directory, tables):
            return Inspected(task=None, problems=problems, notes=notes)
        task = _stepped(document, tables) if tables.steps else _single(document, tables)
        return Inspected(task=task, notes=notes)


def _single(document: Document, tables: schema.TaskToml) -> Task:
    directory = document.path.parent
    instruction = read_instruction(directory / "instruction.md")
    environment = parts.environment(document, directory / "environment", tables.environment, tables.agent)
    tests = directory / "tests"
    own = separate(document, tables, tables.verifier, tests)
    carried = parts.artifacts(document, tables.artifacts, environment.workdir) if own else ()
    verifier = parts.verifier(document, tables.verifier, tests, own=own, carried=carried)
    least = _pass_rewards(document)
    covered = {
        "instruction": digest_bytes(instruction.encode()),
        "environment": environment.digest,
        "verifier": verifier.digest,
        "timeout": tables.agent.timeout_sec,
        **_covered(least),
    }
    return Task(
        name=directory.name,
        digest=digest(covered),
        instruction=instruction,
        environment=environment,
        verifier=verifier,
        solution=parts.solution(directory / "solution", tables.solution, tables.agent.timeout_sec),
        timeout=tables.agent.timeout_sec,
        metadata=_metadata(tables),
        **least,
    )


def _stepped(document: Document, tables: schema.TaskToml) -> Task:
    directory = document.path.parent
    environment = parts.environment(document, directory / "environment", tables.environment, tables.agent)
    steps = read_steps(document, tables, environment)
    strategy = tables.multi_step_reward_strategy or "mean"
    least = _pass_rewards(document)
    covered = {
        "environment": environment.digest,
        "steps": [step.digest for step in steps],
        "strategy": strategy,
        **_covered(least),
    }
    first = steps[0]
    return Task(
        name=directory.name,
        digest=digest(covered),
        instruction=first.instruction,
        environment=environment,
        verifier=first.verifier,
        solution=first.solution if all(step.solution for step in steps) else None,
        timeout=first.timeout,
        steps=steps,
        strategy=strategy,
        metadata=_metadata(tables),
        **least,
    )


def _covered(least: Mapping[str, Any]) -> dict[str, Any]:
    return {"pass_reward": least.get("pass_reward", 1.0)} | {k: v for k, v in least.items() if k == "pass_rewards"}


def _ignore_notes(directory: Path) -> Iterator[str]:
    for place in (directory / "tests", directory / "solution", *sorted((directory / FOLDER).glob("*/*"))):
        if (place / IGNORES).is_file():
            where = (place / IGNORES).relative_to(directory).as_posix()
            yield f"{where} is not applied: every file beside it is uploaded, and counts"


def _solution_notes(directory: Path, tables: schema.TaskToml) -> Iterator[str]:
    places = [f"{FOLDER}/{step.name}/solution" for step in tables.steps or ()] or ["solution"]
    if lacking := [f"{place}/solve.sh" for place in places if not (directory / place / "solve.sh").is_file()]:
        yield f"it has no reference solution ({', '.join(lacking)})"
    elif missing := fill(tables.solution.env).missing:
        yield f"its reference solution needs variables of the host: {', '.join(missing)}"


def _pass_rewards(document: Document) -> dict[str, Any]:
    """`pass_reward` or, when it is a table, `pass_rewards`: fields of the task, where they are set."""
    own = document.table.get("metadata", {}).get(OWN_TABLE, {})
    path = ("metadata", OWN_TABLE)
    if not isinstance(own, Mapping):
        document.wrong(f"metadata.{OWN_TABLE} is not a table", path)
    for key in own:
        if key != "pass_reward":
            document.wrong(f"unknown key 'metadata.{OWN_TABLE}.{key}'", (*path, key), "known: pass_reward")
    if "pass_reward" not in own:
        return {}
    value = own["pass_reward"]
    table = value if isinstance(value, Mapping) else {REWARD: value}
    if not table or not all(_is_number(one) for one in table.values()):
        document.wrong("pass_reward must be a finite number, or a table of them", (*path, "pass_reward"))
    if isinstance(value, Mapping):
        return {"pass_rewards": {name: float(one) for name, one in value.items()}}
    return {"pass_reward": float(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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
