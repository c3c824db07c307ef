"""The digest under which Harbor names a task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.taskset import check_panel
from harnesstrain.taskset.published import published_digest

MakeTask = Callable[..., Path]


def expected(lines: dict[str, bytes]) -> str:
    """The rule, written out."""
    text = b"".join(
        name.encode() + b"\0" + hashlib.sha256(data).hexdigest().encode() + b"\n"
        for name, data in sorted(lines.items())
    )
    return "sha256:" + hashlib.sha256(text).hexdigest()


CONTENT = {
    "task.toml": b"",
    "instruction.md": b"Say hello.\n",
    "environment/Dockerfile": b"FROM python:3.11-slim\nWORKDIR /app\n",
    "tests/test.sh": b"#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n",
    "solution/solve.sh": b"#!/bin/sh\necho hello\n",
}


def test_names_and_bytes_count_and_nothing_else(make_task: MakeTask) -> None:
    task = make_task(toml="")
    assert published_digest(task) == expected(CONTENT)
    (task / "tests/test.sh").chmod(0o755)
    (task / "notes.txt").write_text("mine")
    (task / "tests/__pycache__").mkdir()
    (task / "tests/__pycache__/a.pyc").write_text("x")
    (task / "environment/.DS_Store").write_text("x")
    (task / "environment/linked").symlink_to("../tests")
    assert published_digest(task) == expected(CONTENT)
    (task / "README.md").write_text("About.\n")
    (task / "environment/also").symlink_to("Dockerfile")
    more = {"README.md": b"About.\n", "environment/also": CONTENT["environment/Dockerfile"]}
    assert published_digest(task) == expected(CONTENT | more)


def test_a_gitignore_replaces_the_usual_patterns(make_task: MakeTask) -> None:
    task = make_task(toml="")
    (task / ".gitignore").write_text("*.log\n/tests/big\n")
    (task / "tests/run.log").write_text("x")
    (task / "tests/big").mkdir()
    (task / "tests/big/data").write_text("x")
    (task / "tests/a~").write_text("x")
    assert published_digest(task) == expected(CONTENT | {"tests/a~": b"x"})


def test_the_check_names_it(make_task: MakeTask) -> None:
    task = make_task()
    (found,) = check_panel(task).tasks
    assert found.published == published_digest(task)
    assert found.published != found.digest


def test_it_is_the_digest_of_published_lock_files() -> None:
    """Where whole tasks lie beside the checkout, under the names that a lock file of Harbor's gives them."""
    shared = Path(__file__).parents[3] / "shared/realdata"
    locks = sorted(shared.glob("harbor-jobs/*/lock.json"))
    named = {t["task"]["name"]: t["task"]["digest"] for lock in locks for t in json.loads(lock.read_text())["trials"]}
    whole = {name: shared / "harbor" / name for name in named if (shared / "harbor" / name / "tests").is_dir()}
    if not whole:
        pytest.skip("no whole task with a published digest beside the checkout")
    assert {name: published_digest(path) for name, path in whole.items()} == {name: named[name] for name in whole}
