"""What `ht tasks check` says of tasks that are written wrongly, one line each, and what `ht evaluate` says then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from harnesstrain.cli.checking import placed
from harnesstrain.core.errors import HtError, Unsupported
from harnesstrain.taskset import TaskCheck, load_panel
from tests.cli.conftest import parsed
from tests.project import Project


def written(made: Project, **lines: str) -> None:
    """Tasks whose Dockerfile has a third line, beside one that is whole."""
    shutil.copytree(made.root / "tasks/one", made.root / "more/whole")
    for name, line in lines.items():
        shutil.copytree(made.root / "tasks/one", made.root / "more" / name)
        file = made.root / "more" / name / "environment/Dockerfile"
        file.write_text(f"FROM debian:bookworm-slim\nRUN true\n{line}\n")


def test_every_wrong_dockerfile_has_a_line_of_its_own(project: Callable[..., Project]) -> None:
    made = project()
    written(made, outside="COPY ../../../../etc/passwd /x", unknown="HELLO world", fixed="COPY x /usr/local/bin/x")
    checked = made.ht("tasks", "check", "more")
    assert checked.code == 0, checked.err
    assert "1 of 4 tasks can be measured" in checked.err
    items = parsed(made.ht("tasks", "check", "more", "--json"))["items"]
    assert {one["name"]: (one["status"], one["reasons"]) for one in items if one["name"] != "whole"} == {
        "outside": ("error", ["Dockerfile line 3: COPY ../../../../etc/passwd leaves the build context"]),
        "unknown": ("error", ["Dockerfile line 3: HELLO is no instruction"]),
        "fixed": (
            "unsupported",
            ["the local sandbox has this machine's /usr, read-only: COPY x /usr/local/bin/x (Dockerfile line 3)"],
        ),
    }
    assert [one["name"] for one in items if one["runs"]["local"] == []] == ["whole"]


def test_evaluate_names_the_task_with_the_wrong_dockerfile(project: Callable[..., Project]) -> None:
    made = project()
    written(made, outside="COPY ../x /x")
    refused = made.ht("evaluate", "--panel", "more", "--split", "all")
    assert refused.code == 2
    assert "error: task 'outside': Dockerfile line 3: COPY ../x leaves the build context" in refused.err
    assert "`--exclude outside` leaves it out" in refused.err
    assert made.ht("evaluate", "-n", "--panel", "more", "--split", "all", "--exclude", "outside").code == 0


def test_no_hint_recommends_what_refuses_the_task(tmp_path: Path) -> None:
    hint = "use `--set sandbox.kind=docker` for this task"
    (tmp_path / "set/one").mkdir(parents=True)
    (tmp_path / "set/one/task.toml").write_text("")
    loaded = load_panel(tmp_path / "set")
    check = TaskCheck(name="one", split="train", directory=tmp_path, status="unsupported", hint=hint)
    local: dict[str, HtError] = {"one": Unsupported("one container", hint=hint)}
    cases: tuple[tuple[dict[str, HtError] | str, str | None], ...] = (
        ({"one": Unsupported("service main uses privileged")}, None),
        ({"one": Unsupported("no compose", hint="install it")}, "install it"),
        ({}, hint),
        ("no engine answers", hint),
    )
    for docker, said in cases:
        assert placed(check, loaded, {"local": local, "docker": docker}).hint == said
