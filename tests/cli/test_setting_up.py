"""Commands that make and check things: init, harness check, gc, db, model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import ENVELOPE, parsed
from tests.project import Project

Make = Callable[..., Project]


@pytest.mark.local
def test_a_new_project_works_at_once(project: Make, tmp_path: Path) -> None:
    made = project()
    place = tmp_path / "new"
    ran = made.ht("init", str(place), "--demo", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, f"{place}\n")
    assert ran.err.startswith("baseline ")
    made_files = {path.name for path in place.iterdir()}
    assert made_files >= {
        ".git",
        ".gitignore",
        "agent",
        "harness.toml",
        "ht.toml",
        "ht_sdk.py",
        "patches",
        "program.md",
    }
    checked = made.ht("harness", "check", "--exit-code", "--no-tests", cwd=place)
    assert (checked.code, checked.out) == (0, "")
    assert "keeps to the protocol" in checked.err
    rules = tmp_path / "rules.jsonl"
    rules.write_text('{"reply": "{\\"tool\\": \\"submit\\"}"}\n')
    env = {"HT_LLM_ENGINE": "scripted", "HT_LLM_SCRIPT": str(rules)}
    plan = made.ht("evaluate", "--dry-run", cwd=place, **env)
    assert "8 cells, 0 done, 8 to run" in plan.out
    assert made.ht("status", cwd=place, **env).code == 0
    again = made.ht("init", str(place))
    assert (again.code, "is not an empty directory" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "named"), [("we ird", "cd 'we ird'"), ("-x", "cd -- -x"), ("x", "cd x"), ("a'b", "cd 'a'\"'\"'b'")]
)
def test_the_next_command_can_be_pasted(tmp_path: Path, cache_folder: Path, name: str, named: str) -> None:
    (tmp_path / "repo").mkdir()
    ran = Project(tmp_path / "repo", cache_folder).ht("init", "--", name)
    assert ran.code == 0, ran.err
    assert f"next: `{named}` and `ht evaluate`" in ran.err


@pytest.mark.local
def test_init_as_json(project: Make, tmp_path: Path) -> None:
    made = project()
    found = parsed(made.ht("init", str(tmp_path / "other"), "--json"))
    assert set(found) == ENVELOPE | {"path", "commit"}
    assert len(found["commit"]) == 40


@pytest.mark.local
def test_a_harness_is_checked(project: Make) -> None:
    made = project()
    loose = made.ht("harness", "check")
    assert (loose.code, loose.out.split(":")[0]) == (0, "context_overflow once")  # the tiny harness handles none
    (made.root / "agent" / "main.py").write_text("print('hello')\n")
    bad = made.ht("harness", "check", "--exit-code")
    assert bad.code == 3
    assert "not JSON" in bad.out
    committed = made.ht("harness", "check", "@", "--no-tests")  # the commit, not the files
    assert committed.out == loose.out


@pytest.mark.local
def test_upkeep(project: Make) -> None:
    made = project()
    assert made.ht("evaluate").code == 0
    assert "nothing to do" in made.ht("db", "upgrade").err
    (made.root / ".ht" / "worktrees" / "abandoned").mkdir()
    ran = made.ht("gc")
    assert ran.code == 0
    assert not (made.root / ".ht" / "worktrees" / "abandoned").exists()
    assert set(parsed(made.ht("gc", "--json"))) > ENVELOPE
    held = sum(one["entries"] for one in parsed(made.ht("cache", "stats", "--json"))["items"])
    assert held > 0
    assert made.ht("cache", "gc", "--max-mb", "0").err.strip() == f"{held} entries removed"
    assert made.ht("cache", "gc", "--max-mb", "-1").code == 2


def test_models_are_listed_and_verified(project: Make) -> None:
    made = project()
    assert made.ht("model", "list").lines[0].startswith("name ")
    missing = made.ht("model", "verify")
    assert missing.code == 6
    assert "hint: " in missing.err
    assert made.ht("model", "pull", "no-such-model").code == 2
    plan = made.ht("model", "pull", "--dry-run")
    assert "bytes" in plan.out
