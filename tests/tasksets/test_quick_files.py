"""The shipped task set `quick` and its demo panel: what can be checked without running anything."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from harnesstrain.core.resources import shipped
from harnesstrain.taskset import check_panel, load_panel

QUICK = shipped("tasksets") / "quick"
NAMES = sorted(path.name for path in QUICK.iterdir())
SCRIPTS = ("tests/test.sh", "solution/solve.sh")
ANSWERED = [name for name in NAMES if not name.startswith("write-")]
"""Tasks about something that is given."""
DETERMINISTIC = {"collections", "contextlib", "csv", "json", "os", "pathlib", "re", "resource", "signal", "subprocess"}
DETERMINISTIC |= {"sys", "tarfile", "tempfile"}
SUBSET = {"FROM", "WORKDIR", "COPY", "ENV", "RUN", "USER"}
"""Dockerfile instructions that every sandbox builds."""


def test_quick_has_20_train_and_12_holdout_tasks() -> None:
    found = check_panel("quick")
    assert found.ok
    assert [one.notes for one in found.tasks if one.notes] == []
    assert Counter(one.split for one in found.tasks) == {"train": 20, "holdout": 12}
    assert sorted(one.name for one in found.tasks) == NAMES
    assert all(one.has_solution for one in found.tasks)
    assert len({one.digest for one in found.tasks}) == 32


def test_demo_is_a_part_of_quick_with_the_same_splits() -> None:
    quick = {one.name: one for one in load_panel("quick").panel.tasks}
    demo = load_panel("demo").panel.tasks
    assert Counter(one.split for one in demo) == {"train": 8, "holdout": 4}
    assert all(quick[one.name] == one for one in demo)


def test_both_splits_mix_the_same_kinds_and_difficulties() -> None:
    found = check_panel("quick").tasks
    for key in ("category", "difficulty"):
        splits = {split: {one.metadata[key] for one in found if one.split == split} for split in ("train", "holdout")}
        assert splits["train"] == splits["holdout"]


def test_instructions_are_short_and_each_its_own() -> None:
    tasks = load_panel("quick").tasks.values()
    assert len({task.instruction for task in tasks}) == 32
    assert all(len(task.instruction) < 600 and "/app/" in task.instruction for task in tasks)
    assert all(task.instruction.isascii() for task in tasks)


@pytest.mark.parametrize("name", NAMES)
def test_the_environment_needs_no_more_than_every_sandbox_builds(name: str) -> None:
    dockerfile = (QUICK / name / "environment/Dockerfile").read_text().splitlines()
    assert {line.split()[0] for line in dockerfile} <= SUBSET
    assert dockerfile[:2] == ["FROM python:3.11-slim", "WORKDIR /app"]
    task = load_panel("quick").tasks[name]
    assert (task.environment.network, task.environment.image) == ("none", None)


@pytest.mark.parametrize("name", ANSWERED)
def test_the_verifier_grades_from_its_own_copy_of_what_was_given(name: str) -> None:
    given, app = QUICK / name / "tests/given", QUICK / name / "environment/app"
    copies = [path for path in given.rglob("*") if path.is_file()] if given.is_dir() else []
    if name not in ("fix-countdown", "fix-leap-year", "make-project-tree", "make-scripts-executable"):
        assert copies
    for copy in copies:
        assert copy.read_bytes() == (app / copy.relative_to(given)).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_verifier_is_deterministic_by_what_it_imports(name: str) -> None:
    tree = ast.parse((QUICK / name / "tests/check.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= DETERMINISTIC


def test_every_task_has_the_same_entry_to_its_verifier() -> None:
    assert len({(QUICK / name / "tests/test.sh").read_bytes() for name in NAMES}) == 1
    assert all(Path(QUICK / name / path).stat().st_mode & 0o100 for name in NAMES for path in SCRIPTS)
