"""What holds for every test: property tests have no deadline, because a busy machine is no defect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.project import Project, make_project

settings.register_profile("steady", deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands of the tests keep what may be used again: sandbox layers."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def project(tmp_path: Path, cache_folder: Path) -> Callable[..., Project]:
    """Makes a small harness repo.  Skips, aloud, where the local sandbox cannot be had."""
    from harnesstrain.core import confinement

    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no local sandbox: {why}")
    return lambda **changes: make_project(tmp_path, cache_folder, **changes)
