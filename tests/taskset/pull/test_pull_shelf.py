"""Data sets are found, checked and placed whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import ConfigError, Prerequisite
from harnesstrain.taskset.pull import Shelf, Wanted, find_tasks, here, lay_rows, rows_in
from harnesstrain.taskset.swebench import rows_of

MakeTask = Callable[..., Path]


def test_tasks_are_found_where_they_are_said_to_be_or_below(make_task: MakeTask, tmp_path: Path) -> None:
    for name in ("b", "a"):
        make_task(name, folder=tmp_path / "repo-1234/sets/mine")
    assert find_tasks(tmp_path).names == ("a", "b")
    assert find_tasks(tmp_path / "repo-1234", "sets/mine").folder == tmp_path / "repo-1234/sets/mine"
    assert find_tasks(tmp_path, "sets/mine", ["b"]).names == ("b",)
    assert find_tasks(tmp_path, "sets/mine", ["b"]).bytes > 50


def test_missing_tasks_are_named(make_task: MakeTask, tmp_path: Path) -> None:
    make_task("a", folder=tmp_path / "set")
    with pytest.raises(ConfigError, match="1 of 2 tasks are not in .*: z"):
        find_tasks(tmp_path / "set", wanted=["a", "z"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no tasks"):
        find_tasks(tmp_path / "empty")


def test_placed_whole_with_a_manifest(make_task: MakeTask, tmp_path: Path) -> None:
    make_task("a", folder=tmp_path / "set")
    shelf = Shelf(tmp_path / "shelf")
    with shelf.workplace() as part:
        placed = shelf.put(part, find_tasks(tmp_path / "set"), Wanted(name="mine", origin="there"))
    assert here(placed.folder) == placed.manifest
    assert list(placed.manifest.tasks) == ["a"]
    assert (placed.folder / "tasks/a/task.toml").is_file()
    assert [path.name for path in (tmp_path / "shelf").iterdir()] == [placed.folder.name], "no part is left"

    with shelf.workplace() as part:
        again = shelf.put(part, find_tasks(tmp_path / "set"), Wanted(name="mine", origin="there"))
    assert again == placed


def test_another_digest_places_nothing(make_task: MakeTask, tmp_path: Path) -> None:
    make_task("a", folder=tmp_path / "set")
    shelf = Shelf(tmp_path / "shelf")
    wanted = Wanted(name="mine", origin="there", digest="0" * 64, folder=tmp_path / "shelf/mine")
    with pytest.raises(ConfigError, match="is not data set 'mine'"), shelf.workplace() as part:
        shelf.put(part, find_tasks(tmp_path / "set"), wanted)
    assert list((tmp_path / "shelf").iterdir()) == []
    assert here(tmp_path / "shelf/mine") is None


def test_a_task_that_links_out_is_refused(make_task: MakeTask, tmp_path: Path) -> None:
    directory = make_task("a", folder=tmp_path / "set")
    (directory / "environment/hosts").symlink_to("/etc/hosts")
    shelf = Shelf(tmp_path / "shelf")
    with pytest.raises(ConfigError, match="points out of"), shelf.workplace() as part:
        shelf.put(part, find_tasks(tmp_path / "set"), Wanted(name="mine", origin="there"))


def test_room_is_asked_for_first(tmp_path: Path) -> None:
    with pytest.raises(Prerequisite, match="GB are needed"):
        Shelf(tmp_path).need(1 << 60)


ROW: dict[str, Any] = {
    "repo": "pallets/flask",
    "version": "2.0",
    "base_commit": "0" * 40,
    "test_patch": "diff --git a/t.py b/t.py\n",
    "instance_id": "o__n-1",
    "problem_statement": "é\r\n",
    "FAIL_TO_PASS": '["t"]',
    "PASS_TO_PASS": [],
}


def test_rows_are_the_same_however_they_came(tmp_path: Path) -> None:
    config = tmp_path / "set/o__n-1/tests/config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps(ROW))
    lay_rows(rows_in(tmp_path, "set"), (), tmp_path / "first", "x")
    lay_rows(rows_of([ROW], "x"), ("o__n-1",), tmp_path / "second", "x")
    lay_rows(rows_in(tmp_path / "first"), (), tmp_path / "third", "x")
    texts = {(tmp_path / name / "o__n-1/row.json").read_bytes() for name in ("first", "second", "third")}
    assert len(texts) == 1
    assert json.loads(texts.pop())["problem_statement"] == "é\r\n"


@pytest.mark.parametrize("name", ["../x", "a/b", ".."])
def test_an_id_that_is_no_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no name of a directory"):
        lay_rows(rows_of([{**ROW, "instance_id": name}], "x"), (), tmp_path, "x")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"base_commit": ""}, "o__n-1 has no base_commit"),
        ({"test_patch": ""}, "o__n-1 has no test_patch"),
        ({"problem_statement": " "}, "o__n-1 has no problem_statement"),
        ({"repo": "o/n"}, "o__n-1: nothing is known of the repository 'o/n'"),
        ({"version": "0.0"}, "o__n-1: nothing is known of pallets/flask 0.0"),
    ],
)
def test_a_row_that_can_be_no_task_is_named(tmp_path: Path, change: dict[str, str], why: str) -> None:
    bad, good = {**ROW, **change}, {**ROW, "instance_id": "good"}
    found = lay_rows(rows_of([bad, good], "x"), (), tmp_path / "both", "x")
    assert (found.names, found.unusable) == (("good",), (why,))
    assert [path.name for path in (tmp_path / "both").iterdir()] == ["good"]
    for rows, wanted, said in (([bad], (), "1 of 1 rows"), ([bad, good], ("good", "o__n-1"), "1 of 2 rows")):
        with pytest.raises(ConfigError) as refused:
            lay_rows(rows_of(rows, "x"), wanted, tmp_path / "none", "x")
        assert refused.value.message == f"{said} of x can be no task: {why}"
        assert not (tmp_path / "none").exists()


def test_missing_rows_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 of 2 rows are not in x: z"):
        lay_rows(rows_of([ROW], "x"), ("o__n-1", "z"), tmp_path, "x")
