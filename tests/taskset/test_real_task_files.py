"""Real task.toml files, beside the checkout or wherever HT_REAL_TASKS says: one task per sub-directory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.taskset import inspect_task, schema
from harnesstrain.taskset.document import read
from harnesstrain.taskset.instruction import read_instruction

MakeTask = Callable[..., Path]
BESIDE = Path(__file__).parents[3] / "shared/realdata"
REFUSED = {
    "cookbook-computer-use-windows": (
        "it needs MCP servers",
        "its environment needs variables of the host: DAYTONA_API_KEY",
    ),
}
"""Why a real task cannot run, by its name; the others can, as far as their task.toml says."""


@pytest.fixture
def real_tasks() -> list[Path]:
    """Directories with a real task.toml."""
    place = os.environ.get("HT_REAL_TASKS") or (BESIDE / "harbor" if (BESIDE / "harbor").is_dir() else None)
    if not place:
        pytest.skip("no real tasks: HT_REAL_TASKS names no directory, and there is none beside the checkout")
    found = sorted(path.parent for path in Path(place).rglob("task.toml"))
    assert found, f"{place} holds no task.toml"
    return found


def test_every_real_task_file_is_understood_whole(real_tasks: list[Path]) -> None:
    for directory in real_tasks:
        document = read(directory / "task.toml")
        tables = schema.validate(document)
        assert (1, 0) <= tables.schema_number <= schema.LATEST, directory
        assert not list(schema.unknown_keys(document)), directory
        if not tables.steps:
            assert read_instruction(directory / "instruction.md").strip(), directory


def test_every_real_task_loads_or_is_refused_with_the_reason(real_tasks: list[Path], make_task: MakeTask) -> None:
    for directory in real_tasks:
        text = (directory / "task.toml").read_bytes()
        steps = schema.validate(read(directory / "task.toml")).steps or []
        files: dict[str, Any] = {f"steps/{one.name}/instruction.md": "Do it.\n" for one in steps}
        files |= {f"steps/{one.name}/tests/test.sh": "true\n" for one in steps}
        if (directory / "instruction.md").is_file():
            files["instruction.md"] = (directory / "instruction.md").read_bytes()
        inspected = inspect_task(make_task(directory.name, toml=text, files=files))
        assert inspected.problems == REFUSED.get(directory.name, ()), directory
        if inspected.task is not None:
            assert [step.name for step in inspected.task.steps] == [one.name for one in steps]
            assert "canary" not in inspected.task.instruction.lower()


def test_the_published_schema_takes_what_we_take(real_tasks: list[Path]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    found = sorted((BESIDE / "schemas").glob("harbor-*.task_toml.schema.json"))
    if not found:
        pytest.skip("no published JSON schema of task.toml beside the checkout")
    published = json.loads(found[-1].read_text())
    for directory in real_tasks:
        jsonschema.validate(dict(read(directory / "task.toml").table), published)
    known = {
        name: definition["properties"] for name, definition in published["$defs"].items() if "properties" in definition
    }
    tables: dict[str, type[schema.Table]] = {
        "AgentConfig": schema.AgentTable,
        "VerifierConfig": schema.VerifierTable,
        "EnvironmentConfig": schema.EnvironmentTable,
        "HealthcheckConfig": schema.HealthcheckTable,
        "StepConfig": schema.StepTable,
        "ArtifactConfig": schema.ArtifactTable,
        "VerifierCollectConfig": schema.CollectTable,
        "SolutionConfig": schema.SolutionTable,
        "PackageInfo": schema.PackageTable,
    }
    for name, table in tables.items():
        assert set(known[name]) <= set(table.model_fields), name
    assert set(published["properties"]) <= set(schema.TaskToml.model_fields)
