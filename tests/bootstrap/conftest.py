"""Working copies of the shipped harness, with patches."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.resources import shipped
from harnesstrain.harness import manifest as manifests
from harnesstrain.harness.patching import apply_patch
from harnesstrain.harness.template import create

PATCHES = sorted((shipped("bootstrap") / "patches").glob("*.patch"))


def patch(name: str) -> Path:
    """The patch of that name, whatever its number."""
    found = [path for path in PATCHES if path.stem.split("-", 1)[1] == name]
    assert len(found) == 1, f"no single patch is called {name}"
    return found[0]


def check(harness: Path) -> subprocess.CompletedProcess[str]:
    """The harness's own check, run as its manifest says but without a jail."""
    program, *arguments = manifests.load(harness).check
    assert program == "python"
    return subprocess.run([sys.executable, "-B", *arguments], cwd=harness, capture_output=True, text=True)


Make = Callable[..., Path]


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A harness repo as `ht init` writes it.  Not to be changed."""
    directory = tmp_path_factory.mktemp("baseline") / "harness"
    create(directory)
    return directory


@pytest.fixture
def make(tmp_path: Path, baseline: Path) -> Make:
    """make("a", "b") is a harness repo as `ht init` writes it, with the patches a and b applied."""

    def harness(*names: str) -> Path:
        directory = tmp_path / "harness" / ("+".join(names) or "baseline")
        shutil.copytree(baseline, directory, ignore=shutil.ignore_patterns(".git"))
        for name in names:
            apply_patch(directory, patch(name))
        return directory

    return harness


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """An empty directory for a harness's commands."""
    directory = tmp_path / "app"
    directory.mkdir()
    return directory
