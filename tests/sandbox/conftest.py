"""Sandboxes for this room's tests, one of each kind per module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import Sandbox, Session
from harnesstrain.sandbox.docker import DockerSandbox
from harnesstrain.sandbox.local import LocalSandbox
from tests.sandbox import kinds

SMALL_LIMITS = Limits(memory_mb=192, storage_mb=64, pids=64)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSandbox]:
    sandbox = kinds.local(tmp_path_factory.mktemp("cache"))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    sandbox = kinds.docker(tmp_path_factory.mktemp("cache"))
    yield sandbox
    sandbox.close()


@pytest.fixture(
    params=[pytest.param("local", marks=pytest.mark.local), pytest.param("docker", marks=pytest.mark.docker)]
)
def isolating(request: pytest.FixtureRequest) -> Sandbox:
    """Each kind that isolates."""
    found: Sandbox = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def session(isolating: Sandbox) -> Iterator[Session]:
    """A session with little to spend."""
    image = kinds.SMALL if isolating.capabilities().kind == "docker" else None
    session = isolating.open(Environment(image=image, workdir="/app"), limits=SMALL_LIMITS)
    yield session
    session.close()
