"""Patches apply whole or not at all, and never outside the worktree."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.harness.patching import apply_patch
from harnesstrain.harness.repo import HarnessRepo

PATCH = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
Subject: [PATCH] Say two

---
 agent/main.py | 2 +-
diff --git a/agent/main.py b/agent/main.py
--- a/agent/main.py
+++ b/agent/main.py
@@ -1 +1 @@
-print('one')
+print('two')
diff --git a/agent/added.py b/agent/added.py
new file mode 100755
--- /dev/null
+++ b/agent/added.py
@@ -0,0 +1 @@
+x = 1
--
2.39.5
"""


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    path = tmp_path / "01-two.patch"
    path.write_text(PATCH)
    return path


def test_it_applies_inside_the_state_directory_of_a_repository(repo: HarnessRepo, patch: Path) -> None:
    base = repo.head()
    with repo.worktree(base) as place:
        apply_patch(place, patch)
        assert (place / "agent" / "main.py").read_text() == "print('two')\n"
        commit = repo.capture(place, base, "Two")
    assert commit is not None
    assert repo.changed_files(base, commit) == ("agent/added.py", "agent/main.py")
    repo.guard(base, commit)
    assert repo.dirty() == ()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("-print('one')", "-print('three')", "patch failed: agent/main.py:1"),
        ("agent/main.py", "agent/gone.py", "No such file"),
        ("agent/added.py", "../../../added.py", "added.py"),
        ("agent/added.py", ".git/hooks/post-commit", ".git/hooks/post-commit"),
        (PATCH, "no change at all\n", "No valid patches"),
        (PATCH, "", "No valid patches"),
    ],
)
def test_what_does_not_apply_changes_nothing(repo: HarnessRepo, patch: Path, old: str, new: str, why: str) -> None:
    patch.write_text(PATCH.replace(old, new))
    with repo.worktree(repo.head()) as place:
        with pytest.raises(ConfigError) as caught:
            apply_patch(place, patch)
        assert "01-two.patch does not apply" in caught.value.message
        assert why in caught.value.message
        assert repo.capture(place, repo.head(), "Nothing") is None


def test_a_patch_does_not_follow_a_link_out(repo: HarnessRepo, patch: Path, tmp_path: Path) -> None:
    with repo.worktree(repo.head()) as place:
        (place / "agent" / "added.py").symlink_to(tmp_path / "outside.py")
        with pytest.raises(ConfigError):
            apply_patch(place, patch)
    assert not (tmp_path / "outside.py").exists()


def test_a_patch_that_is_not_there(repo: HarnessRepo, tmp_path: Path) -> None:
    with repo.worktree(repo.head()) as place, pytest.raises(ConfigError, match="cannot read patch"):
        apply_patch(place, tmp_path / "missing.patch")
