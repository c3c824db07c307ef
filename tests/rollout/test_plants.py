"""What a submitted state can plant: each kind proves itself on its examples."""

from __future__ import annotations

import re

import pytest

from harnesstrain.rollout.plants import ALWAYS, ELSEWHERE, FORKED, NEVER, PLANTS, Plant, find, version


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.name for plant in PLANTS])
def test_each_kind_proves_itself(plant: Plant) -> None:
    assert plant.refused in (NEVER, FORKED, ELSEWHERE, ALWAYS)
    assert plant.matches
    assert plant.ignores
    for path in plant.matches:
        assert re.search(plant.pattern, path), path
        assert find([path]), path
    for path in plant.ignores:
        assert not re.search(plant.pattern, path), path


def test_ordinary_work_plants_nothing() -> None:
    work = [
        "/app",
        "/app/solution.py",
        "/app/pyproject.toml",
        "/root/.cache/x",
        "/tmp/y",
        "/var/lib/apt/lists/z",
        "/logs",
    ]
    assert find(work) == ()


def test_a_path_is_told_once_and_what_it_holds_cannot_mislead() -> None:
    found = find(["/lib64/ld-linux-x86-64.so.2", "/app/conftest.py", "/app/\x1b[2J/conftest.py", *["/tests/x"] * 5])
    assert [one.name for one in found] == ["forged_result", "system_folder", "pytest_settings"]
    assert str(found[2]) == "pytest_settings (/app/?[2J/conftest.py, /app/conftest.py)"
    assert str(found[0]) == "forged_result (/tests/x, /tests/x, /tests/x, 2 more)"


@pytest.mark.parametrize(
    ("path", "forks", "workdir", "refused"),
    [
        ("/etc/ld.so.preload", False, "/", True),
        ("/bin/bash", True, "/app", True),
        ("/bin/bash", False, "/app", False),
        ("/conftest.py", False, "/app", True),
        ("/conftest.py", True, "/", False),
        ("/usr/local/bin/pytest", True, "/app", False),
    ],
)
def test_what_is_refused(path: str, forks: bool, workdir: str, refused: bool) -> None:
    [found] = find([path])
    assert found.refuses(forks=forks, workdir=workdir) is refused


def test_the_version_is_of_the_rules() -> None:
    assert version() == version()
    assert len(version()) == 64
