"""A project that went through a loop, made once, for commands that only look."""

from __future__ import annotations

import json
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


def train(place: Path, cache: Path) -> Project:
    """Three epochs: promoted, rejected, promoted; then one candidate by hand.  Skips where nothing can run."""
    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no local sandbox: {why}")
    patches = {
        "01-one": "agent/skills/one",
        "02-lose-two": "agent/broken/two",
        "03-three": "agent/skills/three",
        "04-note": "agent/note.txt",
    }
    project = make_project(place, cache, patches=patches)
    loop = project.ht("epoch", "--n", "3")
    assert loop.code == 0, loop.err
    assert project.ht("propose").code == 0
    return project


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """A trained project that all files here look at; some judge in it by hand."""
    return train(tmp_path_factory.mktemp("trained"), cache_folder)
