"""`ht tasks grade-log`: logs in, one verdict a line out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import parsed
from tests.project import Project, Ran

LOG = "+ : '>>>>> Start Test Output'\n{} t.py::new\nPASSED t.py::old\n+ : '>>>>> End Test Output'\n"
ROW = {
    "repo": "pallets/flask",
    "instance_id": "pallets__flask-1",
    "FAIL_TO_PASS": '["t.py::new"]',
    "PASS_TO_PASS": '["t.py::old"]',
}


@pytest.fixture
def here(tmp_path: Path) -> Project:
    """A directory that is no project, with rows in it."""
    (tmp_path / "home").mkdir()
    place = Project(tmp_path / "work", tmp_path / "home")
    place.root.mkdir()
    (place.root / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    return place


def logged(case: str, result: str, **more: Any) -> str:
    return json.dumps({"case": case, "instance_id": "pallets__flask-1", "log": LOG.format(result), **more}) + "\n"


def grade(place: Project, stdin: str, *more: str, rows: str = "rows.jsonl") -> Ran:
    return place.ht("tasks", "grade-log", "--rows", rows, *more, stdin=stdin)


def test_a_verdict_a_line(here: Project) -> None:
    infra = logged("c", "", log="Killed\n")
    ran = grade(here, logged("a", "PASSED", log_parser="x") + "\n" + logged("b", "FAILED") + infra)
    assert ran.code == 0, ran.err
    solved, failed, broken = (json.loads(line) for line in ran.lines)
    assert (solved["case"], solved["status"], solved["resolved"], solved["infra"]) == ("a", "resolved", True, None)
    assert solved["results"] == {"t.py::new": "PASSED", "t.py::old": "PASSED"}
    assert (failed["case"], failed["status"], failed["resolved"]) == ("b", "unresolved", False)
    assert failed["tests_status"]["FAIL_TO_PASS"] == {"success": [], "failure": ["t.py::new"]}
    assert (broken["case"], broken["status"], broken["resolved"]) == ("c", "infra", None)
    assert broken["infra"] == {"reason": "killed", "evidence": "Killed"}
    assert ran.err == "3 logs: 1 resolved, 1 unresolved, 1 infra\n"


def test_one_json_object(here: Project) -> None:
    found = parsed(grade(here, logged("a", "PASSED"), "--json"))
    assert (found["kind"], found["truncated"], [item["case"] for item in found["items"]]) == ("grades", False, ["a"])


@pytest.mark.parametrize(
    ("line", "why", "hint"),
    [
        ("{oops\n", "stdin:3: not JSON", "a line is {"),
        ("[]\n", "stdin:3: not a JSON object", "a line is {"),
        ('{"case": "x", "instance_id": "pallets__flask-1"}\n', "stdin:3: no log", "a line is {"),
        ('{"case": "x", "log": ""}\n', "stdin:3: no instance_id", "a line is {"),
        ('{"case": 1, "instance_id": "i", "log": ""}\n', "stdin:3: case is no text", "a line is {"),
        (
            '{"case": "x", "instance_id": "pallets__flask-2", "log": ""}\n',
            "stdin:3: no row of 'pallets__flask-2' in rows.jsonl",
            "did you mean 'pallets__flask-1'?",
        ),
    ],
)
def test_a_bad_line_is_named_and_what_was_graded_is_kept(here: Project, line: str, why: str, hint: str) -> None:
    before = logged("a", "PASSED") + "\n"
    ran = grade(here, before + line + logged("z", "PASSED"))
    assert ran.code == 2
    assert [json.loads(found)["case"] for found in ran.lines] == ["a"]
    error, told = ran.err.splitlines()
    assert error == f"error: {why}"
    assert told.startswith(f"hint: {hint}")
    found = parsed(grade(here, before + line, "--json"))
    assert ([item["case"] for item in found["items"]], found["truncated"]) == (["a"], True)
    assert found["error"]["message"] == why


def test_rows_that_cannot_be_used(here: Project) -> None:
    assert grade(here, "", rows="gone.jsonl").err.startswith("error: no such file: gone.jsonl\nhint: ")
    (here.root / "bad.jsonl").write_text(json.dumps(ROW) + "\nnothing\n")
    ran = grade(here, "", rows="bad.jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: bad.jsonl:2: not JSON\nhint: ")
    (here.root / "bad.parquet").write_bytes(b"PAR1 and no more")
    ran = grade(here, "", rows="bad.parquet")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: cannot read bad.parquet: ")
    (here.root / "other.jsonl").write_text(json.dumps(ROW | {"repo": "a/b"}) + "\n")
    ran = grade(here, logged("a", "PASSED"), rows="other.jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: stdin:1: no parser for the logs of 'a/b'\nhint: known: ")
    assert here.ht("tasks", "grade-log").code == 2


def test_no_log_is_nothing_to_do(here: Project) -> None:
    ran = grade(here, "\n")
    assert (ran.code, ran.out, ran.err) == (0, "", "stdin held no log; nothing to do\n")


@pytest.mark.parametrize("lists", [True, False])
def test_rows_from_parquet(here: Project, lists: bool) -> None:
    row = ROW | {name: json.loads(ROW[name]) if lists else ROW[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    pq.write_table(pa.Table.from_pylist([row | {"hints_text": None}]), here.root / "rows.parquet")
    ran = grade(here, logged("a", "PASSED"), rows="rows.parquet")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["resolved"] is True
