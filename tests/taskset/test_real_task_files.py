"""Real task.toml files, where a directory of them is at hand: HT_REAL_TASKS=DIR, one task per sub-directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harnesstrain.taskset import schema
from harnesstrain.taskset.document import read
from harnesstrain.taskset.harbor import read_instruction


@pytest.fixture
def real_tasks() -> list[Path]:
    """Directories with a real task.toml."""
    place = os.environ.get("HT_REAL_TASKS")
    if not place:
        pytest.skip("HT_REAL_TASKS names no directory of real tasks")
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
