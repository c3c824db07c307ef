"""Capture: the whole delta, exactly, as one child commit; nothing in the directory is obeyed."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.digests import digest_tree
from harnesstrain.core.errors import PolicyFailure
from harnesstrain.harness import capture as captures
from harnesstrain.harness.capture import Author, commit_message
from harnesstrain.harness.repo import HarnessRepo
from tests.harness.making import MANIFEST, git


def test_no_delta_is_no_commit(repo: HarnessRepo) -> None:
    with repo.worktree(repo.head()) as place:
        assert repo.capture(place, repo.head(), "Nothing") is None
        (place / "agent" / "main.py").touch()
        (place / "empty" / "directory").mkdir(parents=True)
        assert repo.capture(place, repo.head(), "Nothing") is None


def test_the_whole_delta_is_one_child(repo: HarnessRepo) -> None:
    base = repo.head()
    with repo.worktree(base) as place:
        (place / "agent" / "main.py").write_bytes(b"\xff\x00raw\r\n")
        (place / "agent" / "old.py").rename(place / "agent" / "renamed.py")
        (place / "agent" / "tool.sh").chmod(0o644)
        (place / "prompts" / "system.md").unlink()
        (place / "prompts").rmdir()
        (place / "prompts").write_text("a file where a directory was")
        (place / "tests" / "test_main.py").unlink()
        (place / "tests" / "test_main.py").mkdir()
        (place / "tests" / "test_main.py" / "deep.py").write_text("a directory where a file was")
        (place / "link").unlink()
        (place / "link").symlink_to("/etc/passwd")
        (place / "new é \n\t.txt").write_text("odd name")
        (place / "x.log").write_text("ignored by .gitignore, captured all the same")
        commit = repo.capture(place, base, "Change it all")
        assert commit is not None
        expected = digest_tree(place)
    assert repo.parents(commit) == (base,)
    assert git(repo.root, "log", "-1", "--format=%an <%ae>|%s", commit) == "User <user@example.org>|Change it all"
    with repo.worktree(commit) as place:
        assert digest_tree(place) == expected
        assert (place / "agent" / "main.py").read_bytes() == b"\xff\x00raw\r\n"
        assert not (place / "agent" / "tool.sh").stat().st_mode & 0o111
    assert repo.head() == base
    assert repo.dirty() == ()


def test_the_same_change_is_captured_from_what_is_visible(repo: HarnessRepo) -> None:
    base = repo.head()
    visible = ("agent/**", "harness.toml")
    with repo.worktree(base, visible) as place:
        assert repo.capture(place, base, "Nothing", visible=visible) is None
        (place / "agent" / "old.py").unlink()
        commit = repo.capture(place, base, "Delete one", visible=visible)
        assert commit is not None
        assert repo.changed_files(base, commit) == ("agent/old.py",)
        (place / "tests").mkdir()
        (place / "tests" / "test_main.py").write_text("overwritten unseen")
        commit = repo.capture(place, base, "Overwrite", visible=visible)
        assert commit is not None
        assert repo.changed_files(base, commit) == ("agent/old.py", "tests/test_main.py")


def test_tool_caches_staged_evidence_and_a_repository_at_the_top_are_left_out(repo: HarnessRepo) -> None:
    base = repo.head()
    with repo.worktree(base) as place:
        (place / "agent" / "__pycache__").mkdir()
        (place / "agent" / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"planted")
        (place / ".pytest_cache").mkdir()
        (place / ".pytest_cache" / "x").write_text("x")
        (place / "evidence").mkdir()
        (place / "evidence" / "memo.md").write_text("x")
        git(place, "init", "-q")
        assert repo.capture(place, base, "Nothing", exclude=("evidence",)) is None
        commit = repo.capture(place, base, "Evidence")
        assert commit is not None
        assert repo.changed_files(base, commit) == ("evidence/memo.md",)


def test_nothing_in_the_directory_runs_or_is_obeyed(repo: HarnessRepo, tmp_path: Path) -> None:
    base = repo.head()
    marker = tmp_path / "ran"
    hooks = repo.root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        "pre-commit",
        "post-commit",
        "commit-msg",
        "post-index-change",
        "reference-transaction",
        "post-checkout",
    ):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {marker}\n")
        (hooks / name).chmod(0o755)
    git(repo.root, "config", "filter.evil.clean", f"touch {marker}; echo cleaned")
    git(repo.root, "config", "core.autocrlf", "input")
    git(repo.root, "config", "commit.gpgSign", "true")
    git(repo.root, "config", "gpg.program", "false")
    with repo.worktree(base) as place:
        git(place, "init", "-q")
        for name in ("pre-commit", "post-index-change"):
            (place / ".git" / "hooks" / name).write_text(f"#!/bin/sh\ntouch {marker}\n")
            (place / ".git" / "hooks" / name).chmod(0o755)
        git(place, "config", "core.fsmonitor", f"touch {marker}")
        (place / ".gitattributes").write_text("* filter=evil text=auto ident\n")
        (place / ".gitignore").write_text("*\n")
        (place / "agent" / "main.py").write_bytes(b"$Id$\r\n")
        commit = repo.capture(place, base, "Attack")
    assert commit is not None
    assert repo.file(commit, "agent/main.py") == b"$Id$\r\n"
    assert repo.changed_files(base, commit) == (".gitattributes", ".gitignore", "agent/main.py")
    repo.set_ref("candidates/x", commit)
    assert not marker.exists()


@pytest.mark.parametrize("nested", ["agent/vendor/.git", "agent/.GIT"])
def test_a_repository_inside_is_refused(repo: HarnessRepo, nested: str) -> None:
    with repo.worktree(repo.head()) as place:
        (place / nested).mkdir(parents=True)
        (place / nested / "config").write_text("[core]\n")
        with pytest.raises(PolicyFailure, match="repository inside") as caught:
            repo.capture(place, repo.head(), "Nest")
        assert caught.value.extra["path"] == nested


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_what_is_no_file_is_refused(repo: HarnessRepo, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with repo.worktree(repo.head()) as place:
        if kind == "fifo":
            os.mkfifo(place / "agent" / "thing")
        else:
            monkeypatch.chdir(place / "agent")
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind("thing")
        with pytest.raises(PolicyFailure, match="'agent/thing' is neither a file nor a directory"):
            repo.capture(place, repo.head(), "Odd")


def test_symlinks_are_captured_as_links_and_never_followed(repo: HarnessRepo, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "canary").write_text("canary-1")
    with repo.worktree(repo.head()) as place:
        (place / "agent" / "out").symlink_to(secret)
        (place / "agent" / "main.py").unlink()
        (place / "agent" / "main.py").symlink_to(secret / "canary")
        commit = repo.capture(place, repo.head(), "Point out")
    assert commit is not None
    assert "canary-1" not in git(repo.root, "show", "--format=", commit)
    assert repo.file(commit, "agent/main.py") == os.fsencode(secret / "canary")


def test_size_and_count_are_bounded(repo: HarnessRepo) -> None:
    with repo.worktree(repo.head()) as place:
        (place / "agent" / "big.py").write_bytes(b"x" * (captures.MAX_FILE + 1))
        with pytest.raises(PolicyFailure, match=r"'agent/big.py' has \d+ bytes"):
            repo.capture(place, repo.head(), "Grow")
        (place / "agent" / "big.py").unlink()
        with (place / "agent" / "huge").open("wb") as file:
            file.truncate(1 << 42)
        with pytest.raises(PolicyFailure, match=r"'agent/huge' has \d+ bytes"):
            repo.capture(place, repo.head(), "Grow")
        (place / "agent" / "huge").unlink()
        for number in range(captures.MAX_CHANGES + 1):
            (place / "agent" / f"f{number}").write_text("x")
        with pytest.raises(PolicyFailure, match=f"{captures.MAX_CHANGES + 1} files changed"):
            repo.capture(place, repo.head(), "Multiply")


def test_an_unreadable_file_is_said(repo: HarnessRepo) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    with repo.worktree(repo.head()) as place:
        (place / "agent" / "shut.py").write_text("x")
        (place / "agent" / "shut.py").chmod(0)
        with pytest.raises(PolicyFailure, match="cannot read 'agent/shut.py'"):
            repo.capture(place, repo.head(), "Shut")


def test_names_that_are_not_utf_8(repo: HarnessRepo) -> None:
    with repo.worktree(repo.head()) as place:
        (place / "agent" / os.fsdecode(b"\xff.py")).write_text("x")
        commit = repo.capture(place, repo.head(), "Odd")
    assert commit is not None
    assert repo.changed_files(repo.head(), commit) == ("agent/\udcff.py",)


def test_a_user_without_an_identity(repo: HarnessRepo, no_identity: None) -> None:
    git(repo.root, "config", "--unset", "user.name")
    git(repo.root, "config", "--unset", "user.email")
    assert repo.author() == Author()
    with repo.worktree(repo.head()) as place:
        (place / "agent" / "main.py").write_text("x")
        commit = repo.capture(place, repo.head(), "Change", author=None)
    assert commit is not None
    assert git(repo.root, "log", "-1", "--format=%an %cn", commit) == "harnesstrain harnesstrain"


def test_a_message_with_trailers(repo: HarnessRepo) -> None:
    message = commit_message("Say why\n\nBecause\x1b[31m.", {"Epoch": "7", "Estimator": "llm\nEvil: yes", "Cost": ""})
    with repo.worktree(repo.head()) as place:
        (place / "agent" / "main.py").write_text("x")
        commit = repo.capture(place, repo.head(), message)
    assert commit is not None
    body = git(repo.root, "log", "-1", "--format=%B", commit)
    assert body == "Say why\n\nBecause [31m.\n\nEpoch: 7\nEstimator: llm Evil: yes"
    parsed = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=body, capture_output=True, text=True, check=True
    ).stdout
    assert parsed.splitlines() == ["Epoch: 7", "Estimator: llm Evil: yes"]
    assert repo.version(commit).subject == "Say why"


@given(st.text(), st.dictionaries(st.sampled_from(["Base", "Epoch"]), st.text()))
def test_every_message_has_a_subject_and_is_text(hypothesis: str, trailers: dict[str, str]) -> None:
    message = commit_message(hypothesis, trailers)
    assert message.splitlines()[0].strip()
    assert "\0" not in message
    assert message.endswith("\n")


def test_a_repository_of_sha_256(tmp_path: Path) -> None:
    root = tmp_path / "wide"
    if subprocess.run(["git", "init", "-q", "--object-format=sha256", str(root)], check=False).returncode:
        pytest.skip("this git has no sha256 repositories")
    (root / "harness.toml").write_text(MANIFEST)
    (root / "agent").mkdir()
    (root / "agent" / "main.py").write_text("x = 1\n")
    (root / "agent" / "old.py").write_text("x = 1\n")
    git(root, "add", "-A")
    git(root, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-q", "-m", "x")
    wide = HarnessRepo.open(root)
    with wide.worktree(wide.head()) as place:
        assert wide.capture(place, wide.head(), "Nothing") is None
        (place / "agent" / "main.py").write_text("x = 2\n")
        (place / "agent" / "old.py").unlink()
        commit = wide.capture(place, wide.head(), "Change")
    assert commit is not None
    assert len(commit) == 64
    wide.guard(wide.head(), commit)
    assert wide.promote(wide.branch(), commit, wide.head()).checkout == "updated"
    assert wide.dirty() == ()
