"""Compare-and-swap of the branch, and the user's files afterwards: never a byte lost, always repairable."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harnesstrain.core.errors import HtError, UsageError
from harnesstrain.harness.promotion import Checkout, Promoted
from harnesstrain.harness.repo import HarnessRepo
from tests.harness.making import commit_all, git


@pytest.fixture
def candidate(repo: HarnessRepo) -> str:
    """A child of main that changes, adds, deletes and changes a mode."""
    with repo.worktree(repo.head()) as place:
        (place / "agent" / "main.py").write_text("print('two')\n")
        (place / "agent" / "new.py").write_text("new\n")
        (place / "agent" / "old.py").unlink()
        (place / "agent" / "tool.sh").chmod(0o644)
        commit = repo.capture(place, repo.head(), "Candidate")
    assert commit is not None
    return commit


def shows(repo: HarnessRepo, commit: str) -> bool:
    """Whether the user's files and index are exactly those of a commit."""
    same = git(repo.root, "status", "--porcelain", "--ignored") == ""
    return same and repo.head() == commit and git(repo.root, "diff", commit) == ""


def test_a_clean_checkout_follows(repo: HarnessRepo, candidate: str) -> None:
    old = repo.head()
    done = repo.promote("main", candidate, old)
    assert done == Promoted(branch="main", old=old, new=candidate, moved=True, checkout=Checkout.UPDATED)
    assert shows(repo, candidate)
    assert not (repo.root / "agent" / "old.py").exists()
    assert "ht: promote" in git(repo.root, "reflog", "-1", "main")


def test_promoting_twice_changes_nothing(repo: HarnessRepo, candidate: str) -> None:
    old = repo.head()
    repo.promote("main", candidate, old)
    again = repo.promote("main", candidate, old)
    assert (again.moved, again.checkout, again.reason) == (True, Checkout.UPDATED, "")
    assert shows(repo, candidate)


def test_a_branch_that_moved_is_left_alone(repo: HarnessRepo, candidate: str) -> None:
    old = repo.head()
    (repo.root / "README").write_text("mine")
    mine = commit_all(repo.root, "Mine")
    done = repo.promote("main", candidate, old)
    assert (done.moved, done.checkout) == (False, Checkout.KEPT)
    assert f"branch main is at {mine[:12]}, not at {old[:12]}" in done.reason
    assert shows(repo, mine)


def test_a_branch_that_is_gone(repo: HarnessRepo, candidate: str) -> None:
    done = repo.promote("other", candidate, repo.head())
    assert (done.moved, done.checkout) == (False, Checkout.ELSEWHERE)
    assert "nowhere" in done.reason
    assert git(repo.root, "branch", "--list", "other") == ""


def test_only_forwards(repo: HarnessRepo, candidate: str) -> None:
    old = repo.head()
    repo.promote("main", candidate, old)
    with pytest.raises(UsageError, match="does not descend"):
        repo.promote("main", old, candidate)
    assert repo.head() == candidate


def test_another_branch_is_checked_out(repo: HarnessRepo, candidate: str) -> None:
    old = repo.head()
    git(repo.root, "checkout", "-q", "-b", "other")
    done = repo.promote("main", candidate, old)
    assert (done.moved, done.checkout) == (True, Checkout.ELSEWHERE)
    assert repo.branch_head("main") == candidate
    assert shows(repo, old)


def test_a_detached_head_at_the_old_commit(repo: HarnessRepo, candidate: str) -> None:
    old = repo.head()
    git(repo.root, "checkout", "-q", "--detach")
    assert repo.promote("main", candidate, old).checkout is Checkout.ELSEWHERE
    assert shows(repo, old)


def reverted(repo: HarnessRepo, candidate: str) -> list[str]:
    """What the user's next `git commit -am` changes in the promoted commit."""
    git(repo.root, "commit", "-q", "--allow-empty", "-am", "Mine")
    return git(repo.root, "diff", "--name-only", candidate, "HEAD").split()


def test_an_edit_elsewhere_does_not_hold_up_the_promoted_files(repo: HarnessRepo, candidate: str) -> None:
    (repo.root / "tests" / "test_main.py").write_text("my own work")
    (repo.root / "harness.toml").write_text("staged")
    git(repo.root, "add", "harness.toml")
    done = repo.promote("main", candidate, repo.head())
    assert (done.moved, done.checkout, done.reason) == (True, Checkout.UPDATED, "")
    assert (repo.root / "agent" / "main.py").read_text() == "print('two')\n"
    assert (repo.root / "tests" / "test_main.py").read_text() == "my own work"
    assert git(repo.root, "diff", "--cached", "--name-only").split() == ["harness.toml"]
    assert git(repo.root, "diff", "--name-only").split() == ["tests/test_main.py"]
    assert reverted(repo, candidate) == ["harness.toml", "tests/test_main.py"]


@pytest.mark.parametrize("staged", [False, True])
def test_an_edited_promoted_file_is_kept_and_said(repo: HarnessRepo, candidate: str, staged: bool) -> None:
    (repo.root / "agent" / "main.py").write_text("my own work")
    if staged:
        git(repo.root, "add", "agent/main.py")
    old = repo.head()
    done = repo.promote("main", candidate, old)
    assert (done.moved, done.checkout) == (True, Checkout.KEPT)
    assert "'agent/main.py'" in done.reason
    assert "`git diff` shows" in done.reason
    assert "new.py" not in done.reason
    assert (repo.root / "agent" / "main.py").read_text() == "my own work"
    assert git(repo.root, "diff", "--cached", "--name-only") == ""
    assert git(repo.root, "diff", "--name-only").split() == ["agent/main.py"]
    assert (repo.root / "agent" / "new.py").read_text() == "new\n"
    assert not (repo.root / "agent" / "old.py").exists()
    assert repo.promote("main", candidate, old) == done
    assert reverted(repo, candidate) == ["agent/main.py"]


def test_an_edited_file_that_the_promotion_deletes_is_kept_untracked(repo: HarnessRepo, candidate: str) -> None:
    (repo.root / "agent" / "old.py").write_text("my own work")
    done = repo.promote("main", candidate, repo.head())
    assert done.checkout is Checkout.KEPT
    assert done.reason == "kept your uncommitted changes in 'agent/old.py' (now untracked)"
    assert (repo.root / "agent" / "old.py").read_text() == "my own work"
    assert reverted(repo, candidate) == []


def test_content_that_only_the_index_holds_stays_staged(repo: HarnessRepo, candidate: str) -> None:
    (repo.root / "agent" / "main.py").write_text("staged")
    git(repo.root, "add", "agent/main.py")
    (repo.root / "agent" / "main.py").write_text("print('one')\n")
    done = repo.promote("main", candidate, repo.head())
    assert done.checkout is Checkout.KEPT
    assert "'agent/main.py' (as staged); `git diff HEAD` shows" in done.reason
    assert git(repo.root, "show", ":agent/main.py") == "staged"
    assert git(repo.root, "diff", "--cached", "--name-only").split() == ["agent/main.py"]


def test_an_untracked_file_in_the_way_is_kept(repo: HarnessRepo, candidate: str) -> None:
    (repo.root / "agent" / "new.py").write_text("my own untracked work")
    done = repo.promote("main", candidate, repo.head())
    assert done.checkout is Checkout.KEPT
    assert "agent/new.py" in done.reason
    assert (repo.root / "agent" / "new.py").read_text() == "my own untracked work"
    assert (repo.root / "agent" / "main.py").read_text() == "print('two')\n"
    assert git(repo.root, "status", "--porcelain").split() == ["M", "agent/new.py"]


def test_other_untracked_files_do_not_matter(repo: HarnessRepo, candidate: str) -> None:
    (repo.root / "notes.txt").write_text("mine")
    assert repo.promote("main", candidate, repo.head()).checkout is Checkout.UPDATED
    assert (repo.root / "notes.txt").read_text() == "mine"


def test_killed_after_the_branch_moved(repo: HarnessRepo, candidate: str) -> None:
    old = repo.head()
    git(repo.root, "update-ref", "refs/heads/main", candidate, old)
    assert repo.dirty() != ()
    done = repo.promote("main", candidate, old)
    assert (done.moved, done.checkout) == (True, Checkout.UPDATED)
    assert shows(repo, candidate)


@pytest.mark.parametrize("arrived", ["main", "new", "old", "all"])
def test_killed_while_files_were_written(repo: HarnessRepo, candidate: str, arrived: str) -> None:
    old = repo.head()
    git(repo.root, "update-ref", "refs/heads/main", candidate, old)
    agent = repo.root / "agent"
    if arrived in ("main", "all"):
        (agent / "main.py").write_text("print('two')\n")
    if arrived in ("new", "all"):
        (agent / "new.py").write_text("new\n")
    if arrived in ("old", "all"):
        (agent / "old.py").unlink()
    done = repo.promote("main", candidate, old)
    assert (done.checkout, done.reason) == (Checkout.UPDATED, "")
    assert shows(repo, candidate)


def test_a_lock_left_behind_is_said_and_nothing_is_touched(repo: HarnessRepo, candidate: str) -> None:
    old = repo.head()
    lock = repo.root / ".git" / "index.lock"
    lock.write_text("")
    done = repo.promote("main", candidate, old)
    assert (done.moved, done.checkout) == (True, Checkout.KEPT)
    assert "index.lock" in done.reason
    lock.unlink()
    assert repo.promote("main", candidate, old).checkout is Checkout.UPDATED
    assert shows(repo, candidate)


def test_a_locked_branch_is_an_error_not_a_refusal(repo: HarnessRepo, candidate: str) -> None:
    (repo.root / ".git" / "refs" / "heads" / "main.lock").write_text("")
    with pytest.raises(HtError) as caught:
        repo.promote("main", candidate, repo.head())
    assert caught.value.kind == "busy"


def test_of_several_at_once_one_wins(repo: HarnessRepo) -> None:
    old = repo.head()
    rivals = []
    for number in range(6):
        with repo.worktree(old) as place:
            (place / "agent" / "main.py").write_text(f"print({number})\n")
            commit = repo.capture(place, old, f"Rival {number}")
        assert commit is not None
        rivals.append(commit)
    done: list[Promoted] = []

    def one(commit: str) -> None:
        done.append(HarnessRepo.open(repo.root).promote("side", commit, old))

    git(repo.root, "branch", "side", old)
    threads = [threading.Thread(target=one, args=(commit,)) for commit in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [promoted for promoted in done if promoted.moved]
    assert len(done) == 6
    assert len(winners) == 1
    assert repo.branch_head("side") == winners[0].new


def test_the_user_s_hooks_do_not_run(repo: HarnessRepo, candidate: str, tmp_path: Path) -> None:
    for name in ("reference-transaction", "post-checkout", "post-merge", "post-index-change"):
        hook = repo.root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\nexit 1\n")
        hook.chmod(0o755)
    assert repo.promote("main", candidate, repo.head()).checkout is Checkout.UPDATED
    assert not (tmp_path / "ran").exists()
