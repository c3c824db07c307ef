"""Opening a harness repo, naming revisions, reading versions, refs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.digests import digest_bytes
from harnesstrain.core.errors import Ambiguous, ConfigError, HtError, NotFound, UsageError
from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.harness.template import sdk_source
from tests.harness.making import MANIFEST, commit_all, git


def refused(path: Path) -> HtError:
    with pytest.raises(ConfigError) as caught:
        HarnessRepo.open(path)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value


def test_what_is_no_harness_repo(tmp_path: Path) -> None:
    assert "no directory" in refused(tmp_path / "missing").message
    assert "not in a git repository" in refused(tmp_path).message
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    assert "bare repository" in refused(bare).message
    plain = tmp_path / "plain"
    git(tmp_path, "init", "-q", "-b", "main", str(plain))
    assert "no commit yet" in refused(plain).message
    git(plain, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-q", "--allow-empty", "-m", "x")
    assert "no harness.toml" in refused(plain).message
    (plain / "harness.toml").write_text(MANIFEST)
    error = refused(plain)
    assert "not committed" in error.message
    assert "git add harness.toml" in (error.hint or "")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / ".git").write_text("gitdir: nowhere\n")
    with pytest.raises(HtError, match="git rev-parse failed"):
        HarnessRepo.open(broken)


def test_open_from_below_and_through_a_linked_worktree(repo: HarnessRepo, tmp_path: Path) -> None:
    assert HarnessRepo.open(repo.root / "agent").root == repo.root
    git(repo.root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = HarnessRepo.open(tmp_path / "linked")
    assert linked.branch() == "side"
    assert linked.head() == repo.head()
    linked.set_ref("runs/1", linked.head())
    assert repo.refs("runs/") == {"runs/1": repo.head()}


def test_the_caller_s_git_variables_are_ignored(repo: HarnessRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    head = repo.head()
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    opened = HarnessRepo.open(repo.root)
    assert opened.head() == head
    assert opened.dirty() == ()


def test_branches_and_detached_heads(repo: HarnessRepo) -> None:
    assert repo.branch() == "main"
    assert repo.branch_head("main") == repo.head()
    with pytest.raises(NotFound, match="no branch 'other'"):
        repo.branch_head("other")
    git(repo.root, "checkout", "-q", "--detach")
    with pytest.raises(UsageError, match="HEAD is detached at") as caught:
        repo.branch()
    assert "git switch" in (caught.value.hint or "")


def test_revisions(repo: HarnessRepo) -> None:
    first = repo.head()
    (repo.root / "agent" / "main.py").write_text("print('two')\n")
    second = commit_all(repo.root, "Second")
    git(repo.root, "tag", "-a", "v1", "-m", "v1", first)
    assert repo.resolve("HEAD") == second
    assert repo.resolve("main~1") == first
    assert repo.resolve("v1") == first
    assert repo.resolve(first[:7]) == first
    assert repo.parents(second) == (first,)
    assert repo.parents(first) == ()
    assert repo.history(second) == (second, first)
    assert repo.is_ancestor(first, second)
    assert not repo.is_ancestor(second, first)
    for rev in ("", "nope", "HEAD~9", "--all", "-n1", "HEAD:harness.toml", "a\0b", "HEAD..main"):
        with pytest.raises(NotFound):
            repo.resolve(rev)


def test_an_ambiguous_prefix_names_its_candidates(repo: HarnessRepo) -> None:
    root = repo.root
    tree = git(root, "rev-parse", "HEAD^{tree}")
    seen: dict[str, str] = {}
    for number in range(3000):
        commit = git(root, "commit-tree", tree, "-m", str(number))
        other = seen.setdefault(commit[:4], commit)
        if other != commit:
            break
    with pytest.raises(Ambiguous) as caught:
        repo.resolve(commit[:4])
    assert {commit, other} <= set(caught.value.extra["candidates"])


def test_a_version(repo: HarnessRepo) -> None:
    version = repo.version(repo.head())
    assert version.commit == repo.head()
    assert version.subject == "Start"
    assert version.manifest.name == "tiny"
    assert version.sdk_digest == digest_bytes(sdk_source().read_bytes())
    (repo.root / "harness.toml").write_text(MANIFEST + 'environment = "../env"\n')
    commit = commit_all(repo.root, "Name an environment")
    assert repo.manifest(commit).environment == str(repo.root.parent / "env")
    (repo.root / "harness.toml").write_text("[harness]\n")
    broken = commit_all(repo.root, "Break it")
    with pytest.raises(ConfigError, match=f"{broken[:12]}:harness.toml"):
        repo.version(broken)


def test_files_at_a_commit(repo: HarnessRepo) -> None:
    assert repo.file("HEAD", "prompts/system.md") == b"caf\xc3\xa9\r\nno newline at the end"
    assert repo.file("HEAD", "agent") is None
    assert repo.file("HEAD", "missing") is None


def test_dirty(repo: HarnessRepo) -> None:
    assert repo.dirty() == ()
    (repo.root / ".ht").mkdir()
    (repo.root / ".ht" / "store.db").write_text("x")
    (repo.root / "x.log").write_text("ignored")
    assert repo.dirty() == ()
    (repo.root / ".gitignore").unlink()
    assert repo.dirty() == (".gitignore", "x.log")
    (repo.root / "agent" / "main.py").write_text("changed")
    (repo.root / "agent" / "é\n.py").write_text("new")
    git(repo.root, "rm", "-q", "--cached", "agent/old.py")
    assert repo.dirty() == (".gitignore", "agent/main.py", "agent/old.py", "agent/é\n.py", "x.log")


def test_diff_and_changed_files(repo: HarnessRepo) -> None:
    git(repo.root, "config", "diff.external", "false")
    git(repo.root, "config", "color.ui", "always")
    first = repo.head()
    git(repo.root, "mv", "agent/old.py", "agent/renamed.py")
    (repo.root / "agent" / "main.py").write_bytes(b"caf\xe9\n")
    second = commit_all(repo.root, "Change")
    assert repo.changed_files(first, second) == ("agent/main.py", "agent/old.py", "agent/renamed.py")
    text = repo.diff(first, second)
    assert "+caf\ufffd" in text
    assert "\x1b" not in text
    assert repo.diff(first, first) == ""


def test_refs_keep_commits_reachable(repo: HarnessRepo) -> None:
    tree = git(repo.root, "rev-parse", "HEAD^{tree}")
    lonely = git(repo.root, "commit-tree", tree, "-m", "lonely")
    repo.set_ref("candidates/abc", lonely)
    repo.set_ref("runs/def", repo.head())
    git(repo.root, "gc", "-q", "--prune=now")
    assert repo.resolve("refs/ht/candidates/abc") == lonely
    assert repo.refs() == {"candidates/abc": lonely, "runs/def": repo.head()}
    assert repo.refs("candidates/") == {"candidates/abc": lonely}
    with pytest.raises(HtError, match="update-ref failed"):
        repo.set_ref("candidates/..bad", lonely)
