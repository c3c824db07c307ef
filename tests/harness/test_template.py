"""New harness repos: the shipped baseline, committed, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError, UsageError
from harnesstrain.harness import template
from harnesstrain.harness.check import conformance
from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.harness.trial import run_check
from tests.harness.making import MANIFEST, git


def test_the_shipped_baseline_conforms_and_its_tests_pass(tmp_path: Path, isolated: bool) -> None:
    commit = template.create(tmp_path / "new")
    repo = HarnessRepo.open(tmp_path / "new")
    assert (repo.head(), repo.branch(), repo.dirty()) == (commit, "main", ())
    assert repo.file(commit, "ht_sdk.py") == template.sdk_source().read_bytes()
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]
    with repo.worktree(commit) as place:
        assert conformance(place, isolated=isolated) == []
        checked = run_check(place, repo.manifest(commit), isolated=isolated)
        assert checked.ok, checked.output


def test_extra_files_and_an_empty_directory(tmp_path: Path) -> None:
    place = tmp_path / "new"
    place.mkdir()
    commit = template.create(place, extra={"ht.toml": b"# settings\n", "deep/program.md": b"x"}, branch="trunk")
    repo = HarnessRepo.open(place)
    assert repo.branch() == "trunk"
    assert repo.file(commit, "ht.toml") == b"# settings\n"
    assert repo.file(commit, "deep/program.md") == b"x"
    assert repo.version(commit).subject == template.SUBJECT


def test_a_full_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UsageError, match="not an empty directory"):
        template.create(tmp_path)
    with pytest.raises(UsageError, match="not an empty directory"):
        template.create(tmp_path / "mine")
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with pytest.raises(ConfigError, match="no harness.toml"):
        template.create(tmp_path / "new", source=source)
    (source / "harness.toml").write_text(MANIFEST)
    with pytest.raises(ConfigError, match="has a file harness.toml already"):
        template.create(tmp_path / "new", source=source, extra={"harness.toml": b""})
    assert list(tmp_path.iterdir()) == [source]


def test_without_an_identity_and_in_spite_of_the_user_s_git(
    tmp_path: Path, no_identity: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    settings = tmp_path / "gitconfig"
    settings.write_text(
        f"[init]\n templateDir = {hooks.parent}\n defaultBranch = other\n"
        "[commit]\n gpgSign = true\n[core]\n autocrlf = true\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    commit = template.create(tmp_path / "new")
    repo = HarnessRepo.open(tmp_path / "new")
    assert repo.branch() == "main"
    assert git(repo.root, "log", "-1", "--format=%an <%ae>", commit) == "harnesstrain <harnesstrain@localhost>"
    assert not (repo.root / ".git" / "hooks").exists()


def test_inside_another_repository(repo: HarnessRepo) -> None:
    head = repo.head()
    commit = template.create(repo.root / "nested")
    assert HarnessRepo.open(repo.root / "nested").head() == commit
    assert repo.head() == head
