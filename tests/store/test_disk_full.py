"""A full disk: one clear line, nothing committed lost, and it goes on when there is space again."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.core.errors import HtError, Prerequisite
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import Store
from tests.store.making import a_rollout, a_run, a_trace, recorded

ROOT = Path(__file__).parents[2]

FILLER = """
import sys
from harnesstrain.core.errors import HtError
from harnesstrain.store import Store
from tests.store.making import a_rollout, a_trace, recorded
with Store.open(sys.argv[1], create=True) as store:
    run = recorded(store)
    try:
        for number in range(100_000):
            rollout = a_rollout(run, f"task-{number}")
            store.commit_rollout(rollout, a_trace(rollout, 2) if sys.argv[2] == "traces" else None)
            print(rollout.id, flush=True)
    except HtError as error:
        print(error.exit_code, error.message, error.hint, sep="\\t")
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    mount = tmp_path / "small"
    mount.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mount], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no small file system here: {done.stderr.strip()}")
    try:
        yield mount
    finally:
        subprocess.run(["umount", mount], check=True)


def fill(mount: Path, leave: int = 0) -> Path:
    """Use up the file system but for `leave` bytes."""
    ballast = mount / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\\0" * 4096)
        except OSError:
            pass
        file.truncate(max(ballast.stat().st_size - leave, 0))
    return ballast


def test_a_full_file_system_is_said_once_and_loses_nothing(small: Path) -> None:
    folder = small / ".ht"
    store = Store.open(folder, create=True)
    run = recorded(store)
    cache = store.llm_cache()
    kept = []
    with pytest.raises(Prerequisite, match="disk full") as caught:
        for number in range(10_000):
            rollout = a_rollout(run, f"task-{number}")
            kept.append(store.commit_rollout(rollout, a_trace(rollout, 8)))
    assert "\n" not in caught.value.message and "free some space" in str(caught.value.hint)
    ballast = fill(small)
    assert store.rollouts(run.id) == kept and len(kept) > 10
    for rollout in kept[-3:]:
        assert store.trace(rollout.id) == a_trace(rollout, 8)
    with pytest.raises(HtError):
        store.complete_run(run.id)
    with pytest.raises(Prerequisite):
        store.put_blob(os.urandom(100_000))
    cache.put("0" * 64, Reply(content="x" * 10))  # a cache that cannot be written is no reason to stop
    store.close()
    assert not list(folder.rglob("*.tmp"))

    ballast.unlink()
    with Store.open(folder) as again:
        assert again.rollouts(run.id) == kept
        for rollout in kept[:5]:
            again.trace(rollout.id)
        assert [finding for finding in again.fsck() if finding.kind != "orphan"] == []


def test_a_full_database_is_said_and_loses_nothing(small: Path) -> None:
    folder = small / ".ht"
    with Store.open(folder, create=True) as store:
        run = recorded(store)
        ballast = fill(small, leave=256 * 1024)
        kept = []
        with pytest.raises(Prerequisite):
            for number in range(10_000):
                kept.append(store.commit_rollout(a_rollout(run, f"task-{number}"), None))
        assert store.rollouts(run.id) == kept and len(kept) > 5
        ballast.unlink()
        late = store.commit_rollout(a_rollout(run, "late"), None)
        assert store.rollouts(run.id) == [*kept, late]
        assert store.fsck() == []


@pytest.mark.parametrize("what", ["traces", "rows"])
def test_a_file_size_limit_is_said_in_one_line(folder: Path, what: str) -> None:
    """The same for anybody: no file may grow beyond 600 kB."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))

    command = [sys.executable, "-W", "error", "-c", FILLER, str(folder), what]
    done = subprocess.run(command, cwd=ROOT, preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *committed, last = done.stdout.splitlines()
    code, message, hint = last.split("\t")
    assert code == "6" and "store.db" in message and hint
    with Store.open(folder) as store:
        assert [rollout.id for rollout in store.rollouts(a_run().id)] == committed and len(committed) > 10
        assert [finding for finding in store.fsck() if finding.kind != "orphan"] == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Prerequisite, match="cannot write"):
        Store.open(tmp_path / "file" / ".ht", create=True)
