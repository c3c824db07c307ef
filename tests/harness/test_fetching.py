"""Commits of somebody else's repository, from a real one on this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harnesstrain.core.errors import NotFound, Prerequisite, UsageError
from harnesstrain.harness.fetching import Blob, fetch, is_address


def git(root: Path, *args: str) -> str:
    """Run git as somebody."""
    who = {f"GIT_{role}_{what}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "HOME": str(root), **who}
    done = subprocess.run(["git", *args], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A repository with two commits, a script, bytes, a link, and attributes that would change files on checkout."""
    root = tmp_path / "published"
    (root / "a").mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "a/run.sh").write_text("first\n")
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "-m", "first")
    (root / "a/run.sh").write_text("#!/bin/sh\n")
    (root / "a/run.sh").chmod(0o755)
    (root / "a/data").write_bytes(b"\0\r\n\xff$Id$")
    (root / ".gitattributes").write_text("* text eol=crlf ident\n")
    (root / "a/link").symlink_to("data")
    (root / "a/data").chmod(0o644)
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "-m", "second")
    return root


def test_the_files_of_a_commit_as_they_are(published: Path, tmp_path: Path) -> None:
    found = fetch(f"file://{published}", None, tmp_path / "cache")
    assert found.commit == git(published, "rev-parse", "HEAD")
    assert set(found.sizes()) == {".gitattributes", "a/data", "a/link", "a/run.sh"}
    blobs = {blob.path: blob for blob in found.blobs(["a/link", "a/run.sh"])}
    assert blobs["a/run.sh"] == Blob("a/run.sh", True, False, b"#!/bin/sh\n")
    assert blobs["a/link"] == Blob("a/link", False, True, b"data")
    assert sum(found.sizes().values()) == sum(len(blob.data) for blob in found.blobs(list(found.sizes())))
    found.discard()
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_older_commit_and_what_is_here_is_not_fetched_again(published: Path, tmp_path: Path) -> None:
    first = git(published, "rev-parse", "HEAD~1")
    found = fetch(f"file://{published}", first, tmp_path / "cache")
    assert list(found.sizes()) == ["a/run.sh"]
    (published / ".git").rename(tmp_path / "gone")
    assert fetch(f"file://{published}", first, tmp_path / "cache").commit == first


def test_a_commit_that_is_not_there(published: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no commit"):
        fetch(f"file://{published}", "1" * 40, tmp_path / "cache")


def test_a_place_that_cannot_be_reached(tmp_path: Path) -> None:
    with pytest.raises(Prerequisite, match="cannot fetch") as caught:
        fetch(f"file://{tmp_path}/nowhere", None, tmp_path / "cache")
    assert "--from" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["ext::sh -c id", "--upload-pack=id", "/some/where", "a b", "fd::3", ""])
def test_what_is_no_address(text: str, tmp_path: Path) -> None:
    assert not is_address(text)
    with pytest.raises(UsageError):
        fetch(text, None, tmp_path)


@pytest.mark.parametrize("text", ["https://example.org/x.git", "git@example.org:o/n.git", "ssh://h/x", "file:///x"])
def test_what_is_one(text: str) -> None:
    assert is_address(text)


def test_a_short_commit_is_asked_for_whole(published: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no commit"):
        fetch(f"file://{published}", "abc123", tmp_path)


def test_no_commit_has_the_number_zero(published: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no commit"):
        fetch(f"file://{published}", "0" * 40, tmp_path / "cache")
