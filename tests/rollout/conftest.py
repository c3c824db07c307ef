"""A real sandbox and real harness processes; only the model follows a script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core import confinement
from harnesstrain.sandbox import open_sandbox
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.sandbox.process import ProcessSandbox
from tests.rollout.making import Workbench


@pytest.fixture(scope="session")
def local() -> Iterator[Sandbox]:
    """The local sandbox.  Skips, aloud, where it cannot be had."""
    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no local sandbox: {why}")
    with closing(open_sandbox("local")) as sandbox:
        yield sandbox


@pytest.fixture
def workbench(tmp_path: Path, local: Sandbox) -> Workbench:
    """Cells with a jailed harness and a local sandbox."""
    return Workbench(tmp_path, local)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Workbench]:
    """Cells in the `process` sandbox, which cannot fork and does not isolate."""
    with closing(ProcessSandbox()) as sandbox:
        bench = Workbench(tmp_path, sandbox)
        bench.isolated = False
        yield bench
