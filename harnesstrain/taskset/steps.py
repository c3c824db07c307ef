"""The steps of a Harbor task: `steps/NAME/{instruction.md,tests/,solution/,workdir/}`, one after the other.

Every step has an instruction and a test.sh of its own, or shares the task's.  `workdir/` is laid into the working
directory before the step; a `setup.sh` in it is run there.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.records.task import REWARD, Environment, TaskStep
from harnesstrain.taskset import parts
from harnesstrain.taskset.content import digest_directory
from harnesstrain.taskset.document import Document
from harnesstrain.taskset.instruction import read_instruction
from harnesstrain.taskset.schema import StepTable, TaskToml, VerifierTable

FOLDER = "steps"
SETUP = "setup.sh"


def read_steps(document: Document, tables: TaskToml, environment: Environment) -> tuple[TaskStep, ...]:
    """Every step, in order.  Raises ConfigError: a file is missing, two steps have one name."""
    seen: set[str] = set()
    for table in tables.steps or ():
        form = unicodedata.normalize("NFC", table.name).casefold()
        if form in seen:
            document.wrong(f"two steps have the name '{table.name}'", ("steps", "name"), "rename one of them")
        seen.add(form)
    return tuple(_step(document, tables, table, environment) for table in tables.steps or ())


def separate(document: Document, tables: TaskToml, table: VerifierTable, tests: Path) -> Environment | None:
    """The environment that a verifier has for itself; None: it grades in the task's own.

    It is built from `tests/Dockerfile`, or a ready image, or a fresh copy of the task's.
    """
    if not table.separate:
        return None
    settings = table.environment or tables.environment
    if (tests / "Dockerfile").is_file():
        settings = settings.model_copy(update={"docker_image": None})
        return parts.environment(document, tests, settings, table)
    if table.environment is not None:
        return parts.environment(document, tests, settings, table)
    return parts.environment(document, document.path.parent / "environment", settings, table)


def _step(document: Document, tables: TaskToml, table: StepTable, environment: Environment) -> TaskStep:
    directory = document.path.parent
    folder = directory / FOLDER / table.name
    shared, tests, files = directory / "tests", folder / "tests", folder / "workdir"
    own = separate(document, tables, table.verifier, tests)
    carried = parts.artifacts(document, (*tables.artifacts, *table.artifacts), environment.workdir) if own else ()
    verifier = parts.verifier(
        document, table.verifier, tests, base=shared if shared.is_dir() else None, own=own, carried=carried
    )
    instruction = read_instruction(folder / "instruction.md")
    timeout = table.agent.timeout_sec
    step = TaskStep(
        name=table.name,
        instruction=instruction,
        verifier=verifier,
        timeout=timeout,
        files=files if files.is_dir() else None,
        setup=(files / SETUP).is_file(),
        healthcheck=parts.healthcheck(table.healthcheck),
        min_reward=_least(table.min_reward),
        solution=parts.solution(folder / "solution", tables.solution, timeout),
    )
    covered: dict[str, Any] = {
        "name": step.name,
        "instruction": digest_bytes(instruction.encode()),
        "verifier": verifier.digest,
        "timeout": timeout,
        "files": digest_directory(files) if step.files else "",
        "healthcheck": step.healthcheck,
        "min_reward": step.min_reward,
    }
    return step.model_copy(update={"digest": digest(covered)})


def _least(found: float | dict[str, float] | None) -> dict[str, float]:
    if found is None:
        return {}
    return dict(found) if isinstance(found, dict) else {REWARD: float(found)}
