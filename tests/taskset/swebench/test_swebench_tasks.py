"""Rows as tasks: what a harness is shown, where it works, what its change is graded against, what a digest covers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.task import Task
from harnesstrain.taskset import check_panel, load_task
from harnesstrain.taskset.swebench import read_rows
from harnesstrain.taskset.swebench.rows import read_row, row_bytes

SAMPLE = Path(__file__).parent / "sample" / "row.json"
Make = Callable[..., Task]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Loads the sample row with other columns."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def task(**columns: Any) -> Task:
        directory = tmp_path / "ours__calc-1"
        directory.mkdir(exist_ok=True)
        table = json.loads(SAMPLE.read_text()) | columns
        (directory / "row.json").write_text(json.dumps(table))
        return load_task(directory)

    return task


def test_a_row_is_a_task(make: Make) -> None:
    task = make()
    assert task.instruction == "`calc.mean([])` raises ZeroDivisionError.\n\nIt should be 0.\n"
    assert task.environment.image == "swebench/sweb.eval.x86_64.ours_1776_calc-1:latest"
    assert (task.environment.workdir, task.environment.network) == ("/testbed", "none")
    assert task.metadata == {"difficulty": "<15 min fix", "repo": "django/django", "version": "4.2"}
    assert sorted(path.name for path in task.verifier.tests.iterdir()) == ["eval.sh", "test.patch"]
    assert task.solution is not None and b"\r" not in (task.solution.path / "solve.sh").read_bytes()


def test_no_sandbox_gets_the_reference_solution(make: Make) -> None:
    task = make(hints_text="hint")
    assert task.verifier.expected is not None
    kept = read_row(task.verifier.expected)
    assert (kept.patch, kept.hints_text) == ("", "")
    assert task.verifier.tests not in task.verifier.expected.parents
    assert not any(b"max(" in path.read_bytes() for path in task.verifier.tests.iterdir())


def test_an_image_of_ones_own(make: Make, tmp_path: Path) -> None:
    published = make()
    named = make(image="registry.example.org/calc:1")
    assert named.environment.image == "registry.example.org/calc:1"
    context = tmp_path / "ours__calc-1/environment"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM debian:12-slim\n")
    built = make(image="registry.example.org/calc:1")
    assert (built.environment.image, built.environment.context) == (None, context)
    assert len({one.digest for one in (published, named, built)}) == 3
    assert len({one.environment.digest for one in (published, named, built)}) == 3


@pytest.mark.parametrize(
    ("columns", "counts"),
    [
        ({"problem_statement": "something else"}, True),
        ({"FAIL_TO_PASS": ["another test"]}, True),
        ({"PASS_TO_PASS": []}, True),
        ({"base_commit": "0" * 40}, True),
        ({"version": "2.2"}, True),
        ({"patch": ""}, False),
        ({"hints_text": "a hint", "difficulty": "hard", "created_at": "2020"}, False),
    ],
)
def test_a_digest_covers_what_counts(make: Make, columns: dict[str, Any], counts: bool) -> None:
    assert (make().digest != make(**columns).digest) is counts


def test_a_row_without_a_patch_has_no_solution(make: Make) -> None:
    assert make(patch="").solution is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"problem_statement": " \r\n"}, "no problem_statement"),
        ({"repo": "ours/calc"}, "nothing is known of the repository"),
        ({"version": "0.0"}, "nothing is known of django/django 0.0"),
        ({"test_patch": ""}, "no test_patch"),
        ({"FAIL_TO_PASS": "one"}, "not JSON"),
    ],
)
def test_a_row_that_cannot_be_measured_is_an_error(make: Make, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make(**columns)
    assert caught.value.hint


def test_a_row_is_written_as_it_is_read(tmp_path: Path) -> None:
    for image in ("", "calc:1"):
        row = read_row(SAMPLE).model_copy(update={"image": image})
        path = tmp_path / "row.json"
        path.write_bytes(row_bytes(row))
        assert read_row(path) == row
        assert ('"image"' in path.read_text()) is bool(image)


def test_real_rows_are_tasks(real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = read_rows(real / "verified-10.jsonl")
    for name, row in rows.items():
        (tmp_path / "tasks" / name).mkdir(parents=True)
        (tmp_path / "tasks" / name / "row.json").write_bytes(row_bytes(row))
    checked = check_panel(tmp_path / "tasks")
    assert checked.ok and len(checked.tasks) == 10
    assert all(task.has_solution for task in checked.tasks)
    for name in rows:
        task = load_task(tmp_path / "tasks" / name)
        assert "\r" not in task.instruction and task.environment.image is not None
