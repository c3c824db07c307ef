"""What a sandbox has built of an environment, asked before and after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import KeepsBuilds, Sandbox
from tests.sandbox import kinds


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    """Each kind that keeps what it builds."""
    found = getattr(kinds, request.param)(tmp_path / "cache")
    yield found
    found.close()


def test_nothing_before_and_bytes_after(sandbox: Sandbox, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    base = kinds.SMALL
    (context / "Dockerfile").write_text(f"FROM {base}\nWORKDIR /app\nCOPY data /app/data\n")
    (context / "data").write_bytes(str(tmp_path).encode() * 100)
    environment = Environment(context=context)
    assert isinstance(sandbox, KeepsBuilds)
    assert sandbox.built(environment) is None
    sandbox.prepare(environment)
    size = sandbox.built(environment)
    assert size is not None and size >= 100 * len(str(tmp_path))
