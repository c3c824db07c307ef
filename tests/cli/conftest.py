"""A project that went through a loop, made once, for commands that look at it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core import confinement
from tests.project import Project, Ran, make_project

ENVELOPE = {"schema", "kind", "as_of", "error"}
"""Keys of every --json object."""


def parsed(ran: Ran) -> dict[str, Any]:
    """The one --json object on stdout."""
    (line,) = ran.lines
    found = json.loads(line)
    assert isinstance(found, dict)
    assert set(found) >= ENVELOPE
    assert found["schema"] == 1
    return found


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """Three epochs: promoted, rejected, promoted; then one candidate by hand.  Every file of tests gets a copy.

    Skips where nothing can run.
    """
    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no local sandbox: {why}")
    patches = {
        "01-one": "agent/skills/one",
        "02-lose-two": "agent/broken/two",
        "03-three": "agent/skills/three",
        "04-note": "agent/note.txt",
    }
    project = make_project(tmp_path_factory.mktemp("original"), cache_folder, patches=patches)
    loop = project.ht("epoch", "--n", "3")
    assert loop.code == 0, loop.err
    assert project.ht("propose").code == 0
    return project


@pytest.fixture(scope="module")
def trained(original: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A trained project of one file of tests, which may judge in it: no other file sees what it did."""
    root = tmp_path_factory.mktemp("trained") / original.root.name
    shutil.copytree(original.root, root, symlinks=True)
    return replace(original, root=root)
