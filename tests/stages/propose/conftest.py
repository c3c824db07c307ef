"""Projects, jails and agent CLIs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core import confinement
from tests.stages.propose.making import Project

MakeProject = Callable[..., Project]


@pytest.fixture
def jailed() -> None:
    """Skips, aloud, where no jail can be had."""
    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no jail: {why}")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[MakeProject]:
    """Makes projects from the text of ht.toml.

    `tiny`: a harness without tests instead of the shipped one; `manifest`: more of its harness.toml;
    `files`: more files; `policy`: program.md.
    """
    made: list[Project] = []

    def make(toml: str, *, environ: dict[str, str] | None = None, **more: Any) -> Project:
        made.append(Project(tmp_path / f"repo{len(made)}", toml, environ=environ or {}, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def agents() -> Callable[[str], str]:
    """Finds an agent CLI on PATH or below HT_TEST_AGENTS (an npm folder); skips, aloud, without it."""

    def find(name: str) -> str:
        folder = os.environ.get("HT_TEST_AGENTS")
        path = f"{folder}/node_modules/.bin" if folder else os.environ.get("PATH", os.defpath)
        found = shutil.which(name, path=path)
        if found is None:
            pytest.skip(f"{name} is not installed: put it on PATH, or name its npm folder in HT_TEST_AGENTS")
        return found

    return find
