"""Exports: exact bytes, no `.git`, unique names, gone afterwards, swept after a crash."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core import scratch
from harnesstrain.core.digests import digest_tree
from harnesstrain.core.errors import HtError, Prerequisite
from harnesstrain.harness.repo import HarnessRepo
from tests.harness.making import commit_all, git


def test_exact_bytes_and_modes(repo: HarnessRepo) -> None:
    before = os.umask(0o077)
    try:
        with repo.worktree(repo.head()) as place:
            assert not (place / ".git").exists()
            assert (place / "prompts" / "system.md").read_bytes() == b"caf\xc3\xa9\r\nno newline at the end"
            assert (place / "agent" / "tool.sh").stat().st_mode & 0o777 == 0o755
            assert (place / "agent" / "main.py").stat().st_mode & 0o777 == 0o644
            assert (place / "agent").stat().st_mode & 0o777 == 0o755
            assert place.stat().st_mode & 0o777 == 0o755
            assert (place / "link").is_symlink()
            assert (place / "link").readlink() == Path("agent/main.py")
            exported = digest_tree(place)
    finally:
        os.umask(before)
    assert exported == digest_tree(repo.root, ignore=(".git", ".ht"))
    assert not place.exists()


def test_no_filter_and_no_attribute_is_obeyed(repo: HarnessRepo) -> None:
    git(repo.root, "config", "filter.evil.smudge", "echo smudged")
    git(repo.root, "config", "filter.evil.clean", "cat")
    git(repo.root, "config", "core.autocrlf", "true")
    (repo.root / ".gitattributes").write_text("* filter=evil text eol=crlf\nagent/old.py export-ignore\n")
    (repo.root / "agent" / "ident.py").write_bytes(b"$Id$ $Format:%H$\n")
    git(repo.root, "add", "-A")
    commit = commit_all(repo.root, "Attributes")
    with repo.worktree(commit) as place:
        assert (place / "agent" / "main.py").read_bytes() == b"print('one')\n"
        assert (place / "agent" / "ident.py").read_bytes() == b"$Id$ $Format:%H$\n"
        assert (place / "agent" / "old.py").exists()


def test_only_what_is_visible(repo: HarnessRepo) -> None:
    with repo.worktree(repo.head(), visible=["agent/**", "harness.toml"]) as place:
        names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if not path.is_dir())
        assert names == ["agent/main.py", "agent/old.py", "agent/tool.sh", "harness.toml"]


def test_every_worktree_is_its_own(repo: HarnessRepo) -> None:
    found: list[Path] = []

    def one() -> None:
        with repo.worktree(repo.head()) as place:
            found.append(place)
            assert (place / "harness.toml").is_file()
            (place / "agent" / "main.py").write_text(place.name)
            assert (place / "agent" / "main.py").read_text() == place.name

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({place.name for place in found}) == 8
    assert list((repo.state / "worktrees").iterdir()) == []


def test_removed_whatever_was_left_in_it(repo: HarnessRepo) -> None:
    with repo.worktree(repo.head()) as place:
        locked = place / "locked"
        (locked / "deeper").mkdir(parents=True)
        (locked / "deeper" / "file").write_text("x")
        (locked / "deeper" / "file").chmod(0)
        (locked / "deeper").chmod(0)
        locked.chmod(0o500)
        os.mkfifo(place / "fifo")
        (place / "out").symlink_to(repo.root)
    assert not place.exists()
    assert (repo.root / "harness.toml").is_file()


def test_removed_when_the_work_fails(repo: HarnessRepo) -> None:
    with pytest.raises(ZeroDivisionError), repo.worktree(repo.head()) as place:
        raise ZeroDivisionError
    assert not place.exists()


def test_the_sweep_takes_what_crashed_and_leaves_what_lives(repo: HarnessRepo) -> None:
    crash = (
        "import os, sys\nfrom pathlib import Path\nfrom harnesstrain.harness.repo import HarnessRepo\n"
        "repo = HarnessRepo.open(Path(sys.argv[1]))\n"
        "context = repo.worktree(repo.head())\nprint(context.__enter__(), flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    run = subprocess.run([sys.executable, "-c", crash, str(repo.root)], capture_output=True, text=True, check=False)
    crashed = Path(run.stdout.strip())
    assert crashed.is_dir()
    (crashed.parent / "stray").mkdir()
    with repo.worktree(repo.head()) as living:
        assert HarnessRepo.open(repo.root).sweep() == 2
        assert living.is_dir()
        assert not crashed.exists()
        assert repo.sweep() == 0
    assert list((repo.state / "worktrees").iterdir()) == []


def test_the_sweep_of_nothing(tmp_path: Path) -> None:
    assert scratch.sweep(tmp_path / "missing") == 0


def test_a_place_that_cannot_be_written(repo: HarnessRepo, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    blocked = HarnessRepo.open(repo.root, state=tmp_path / "file")
    with pytest.raises(Prerequisite, match="cannot write in"), blocked.worktree(repo.head()):
        pass


def test_a_full_disk_is_said(repo: HarnessRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    real = os.open

    def to_full(path: Path, flags: int, mode: int = 0o777, **more: Any) -> int:
        writes = flags & os.O_CREAT and str(path).endswith("main.py")
        return real(full, os.O_WRONLY) if writes else real(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", to_full)
    with pytest.raises(Prerequisite, match="No space left"), repo.worktree(repo.head()):
        pass
    assert list((repo.state / "worktrees").iterdir()) == []


def test_a_commit_with_an_escaping_path_is_not_written(repo: HarnessRepo) -> None:
    blob = git(repo.root, "hash-object", "-w", "--stdin", stdin="x")
    inner = bytes.fromhex(blob)
    raw = b"100644 ..\0" + inner
    tree = _write_object(repo.root, "tree", raw)
    commit = git(repo.root, "commit-tree", tree, "-m", "escape")
    with pytest.raises(HtError, match="unusable path"), repo.worktree(commit):
        pass


def _write_object(root: Path, kind: str, data: bytes) -> str:
    run = subprocess.run(
        ["git", "hash-object", "-w", "-t", kind, "--literally", "--stdin"],
        cwd=root,
        input=data,
        capture_output=True,
        check=True,
    )
    return run.stdout.decode().strip()


def test_submodules_are_empty_directories(repo: HarnessRepo) -> None:
    git(repo.root, "update-index", "--add", "--cacheinfo", f"160000,{repo.head()},vendor/sub")
    git(repo.root, "commit", "-q", "-m", "Submodule")
    with repo.worktree(repo.head()) as place:
        assert list((place / "vendor" / "sub").iterdir()) == []


def test_the_frozen_sdk_comes_compiled(repo: HarnessRepo) -> None:
    with repo.worktree(repo.head()) as place:
        compiled = list((place / "__pycache__").glob("ht_sdk.*.pyc"))
        assert len(compiled) == 1
        assert repo.capture(place, repo.head(), "Nothing") is None
    (repo.root / "ht_sdk.py").write_text("def (")
    commit = commit_all(repo.root, "Break the SDK")
    with repo.worktree(commit) as place:
        assert not (place / "__pycache__").exists() or not list((place / "__pycache__").iterdir())
