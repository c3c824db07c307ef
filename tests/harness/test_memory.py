"""What is remembered of commits, and what is asked again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harnesstrain.harness.git import Answer, Git
from harnesstrain.harness.memory import Memory, is_oid
from harnesstrain.harness.repo import HarnessRepo
from tests.harness.making import MANIFEST, commit_all, git


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The git commands that are run from now on."""
    ran: list[str] = []
    real = Git.ask

    def ask(self: Git, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Answer:
        ran.append(args[0])
        return real(self, *args, stdin=stdin, env=env)

    monkeypatch.setattr(Git, "ask", ask)
    return ran


def _next(root: Path, subject: str) -> str:
    (root / "agent" / "main.py").write_text(f"print({subject!r})\n")
    return commit_all(root, subject)


def test_a_difference_and_a_version_are_asked_for_once(repo: HarnessRepo, asked: list[str]) -> None:
    first = repo.head()
    second = _next(repo.root, "two")
    diff, version = repo.diff(first, second), repo.version(second)
    assert "+print('two')" in diff and version.subject == "two"
    asked.clear()
    assert repo.diff(first, second) == diff and repo.version(second) == version
    assert asked == []
    assert "-print('two')" in repo.diff(second, first)
    assert asked == ["diff"]


def test_what_a_name_stands_for_is_asked_again(repo: HarnessRepo) -> None:
    first = repo.head()
    assert repo.diff(first, "HEAD") == "" and repo.version("HEAD").subject == "Start"
    _next(repo.root, "two")
    assert "+print('two')" in repo.diff(first, "HEAD")
    (repo.root / "harness.toml").write_text(MANIFEST.replace("agent/**", "prompts/**"))
    commit_all(repo.root, "Narrow")
    assert repo.version("HEAD").subject == "Narrow"
    assert "prompts/**" in repo.version("HEAD").manifest.surface


def test_a_long_difference_is_not_kept(repo: HarnessRepo, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesstrain.harness.repo.DIFF_KEPT", 20)
    first, second = repo.head(), _next(repo.root, "two")
    asked.clear()
    assert repo.diff(first, second) == repo.diff(first, second) != ""
    assert asked == ["diff", "diff"]


def test_a_branch_named_like_a_commit_is_not_taken_for_it(repo: HarnessRepo) -> None:
    first, second = repo.head(), _next(repo.root, "two")
    expected = repo.diff(first, second)
    git(repo.root, "update-ref", f"refs/heads/{first}", second)
    assert HarnessRepo.open(repo.root).diff(first, second) == expected


def test_the_one_not_asked_for_the_longest_is_forgotten() -> None:
    memory: Memory[int, str] = Memory(2)
    memory.keep(1, "one")
    memory.keep(2, "two")
    assert memory.get(1) == "one"
    memory.keep(3, "three")
    assert [memory.get(number) for number in (1, 2, 3)] == ["one", None, "three"]


@pytest.mark.parametrize("revision", ["a" * 40, "0" * 64])
def test_full_ids_are_worth_remembering(revision: str) -> None:
    assert is_oid(revision)


@pytest.mark.parametrize("revision", ["a" * 39, "a" * 41, "HEAD", "A" * 40, "a" * 40 + "^"])
def test_other_revisions_are_not(revision: str) -> None:
    assert not is_oid(revision)


def test_refs_below_a_prefix(repo: HarnessRepo) -> None:
    head = repo.head()
    for name in ("runs/1", "runs/12", "candidates/1", "runs-of-old/1"):
        repo.set_ref(name, head)
    assert set(repo.refs("runs/")) == {"runs/1", "runs/12"}
    assert set(repo.refs("runs/12")) == {"runs/12"}
    assert set(repo.refs("runs")) == {"runs/1", "runs/12", "runs-of-old/1"}
    assert set(repo.refs()) == {"runs/1", "runs/12", "candidates/1", "runs-of-old/1"}
