"""A store that cannot be written can be read, with everything that was committed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import Store
from tests.store.making import a_rollout, a_trace, recorded

ROOT = Path(__file__).parents[2]
FROZEN = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'

READER = """
import sys
from harnesstrain.core.errors import Prerequisite
from harnesstrain.store import Store
with Store.open(sys.argv[1], create=sys.argv[2] == "create") as store:
    runs = store.summaries()
    for one in runs:
        for rollout in store.rollouts(one.run):
            store.trace(rollout.id)
    count = sum(len(store.rollouts(one.run)) for one in runs)
    print(len(runs), count, len(store.fsck()), store.cache_stats()[0].entries)
    try:
        with store.lease("x"):
            print("written")
    except Prerequisite as error:
        print(error.message)
"""


@pytest.fixture(scope="session")
def frozen() -> Callable[..., str]:
    """Run a Python program with a folder mounted read-only, in a mount namespace of its own."""

    def run(folder: Path, program: str, *words: str) -> str:
        command = ["unshare", "-m", "sh", "-c", FROZEN, "sh", str(folder), sys.executable, "-c", program, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    if os.geteuid() != 0:
        pytest.skip("mounting read-only needs root")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    return run


def fill(folder: Path) -> None:
    """Two committed rollouts and one entry of a cache."""
    with Store.open(folder, create=True) as store:
        run = recorded(store)
        for task in ("one", "two"):
            rollout = a_rollout(run, task)
            store.commit_rollout(rollout, a_trace(rollout, 2))
        store.llm_cache().put("0" * 64, Reply(content="x"))


@pytest.mark.parametrize("mode", ["open", "create"])
def test_a_closed_store_is_read_where_nothing_can_be_written(
    folder: Path, frozen: Callable[..., str], mode: str
) -> None:
    fill(folder)
    assert not list(folder.glob("*-wal"))
    counts, refused = frozen(folder, READER, str(folder), mode).splitlines()
    assert counts == "1 2 0 1"
    assert "read-only file system" in refused and "store.db" in refused


@pytest.mark.parametrize("index", [True, False])
def test_what_is_in_the_log_only_is_read_too(
    folder: Path, tmp_path: Path, frozen: Callable[..., str], index: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill leaves it; and as a copy without the index has it."""
    left, copies = tmp_path / "left", tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setenv("TMPDIR", str(copies))
    with Store.open(folder, create=True) as store:
        run = recorded(store)
        rollout = a_rollout(run, "one")
        store.commit_rollout(rollout, a_trace(rollout, 2))
        store.cache_stats()
        shutil.copytree(folder, left, ignore=None if index else shutil.ignore_patterns("*-shm"))
    assert (left / "store.db-wal").stat().st_size > 0
    counts, _ = frozen(left, READER, str(left), "open").splitlines()
    assert counts == "1 1 0 0"
    assert not list(copies.iterdir())


def test_a_folder_without_permission_is_read_from_a_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else may write there."""
    fill(folder)
    asked = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and asked(path, mode))
    with Store.open(folder) as store:
        (summary,) = store.summaries()
        assert len(store.rollouts(summary.run)) == 2
        with pytest.raises(Prerequisite, match="no permission to write"), store.lease("x"):
            pass
