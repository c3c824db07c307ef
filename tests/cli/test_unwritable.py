"""A project whose `.ht` cannot be written: what reads works, what writes says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import Project, Ran

pytestmark = pytest.mark.local
FROZEN = 'mount --bind .ht .ht && mount -o remount,ro,bind .ht && exec "$@"'


@pytest.fixture(scope="module")
def frozen(trained: Project) -> Project:
    """The trained project, where `.ht` can be mounted read-only."""
    if os.geteuid() != 0:
        pytest.skip("mounting read-only needs root")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    return trained


def ht(project: Project, *words: str) -> Ran:
    """Run a command with `.ht` read-only."""
    command = [str(Path(sys.executable).parent / "ht"), *words]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", FROZEN, "sh", *command],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        text=True,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.parametrize(
    "command",
    [
        "report",
        "log",
        "watch --once",
        "show HEAD",
        "diff HEAD~1..HEAD",
        "status",
        "verify",
        "fsck",
        "db check",
        "cache stats",
    ],
)
def test_a_command_that_reads_works_on_a_read_only_store(frozen: Project, command: str) -> None:
    ran = ht(frozen, *command.split())
    assert ran.code == 0, ran.err
    assert ran.out or ran.err


def test_caches_are_exported_from_a_read_only_store(frozen: Project, tmp_path: Path) -> None:
    ran = ht(frozen, "cache", "export", str(tmp_path / "out"))
    assert ran.code == 0, ran.err
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3


@pytest.mark.parametrize("command", ["evaluate --fresh readonly", "cache bump step", "gc"])
def test_a_command_that_writes_names_the_reason(frozen: Project, command: str) -> None:
    ran = ht(frozen, *command.split())
    assert ran.code == 6, ran.err
    assert "read-only file system" in ran.err.lower()
