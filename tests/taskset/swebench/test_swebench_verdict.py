"""A log and a row → resolved, unresolved or infra."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harnesstrain.taskset.swebench import Facts, grade_log, read_rows
from harnesstrain.taskset.swebench.verdict import END, EXIT_CODE, FAILURES, START
from tests.taskset.swebench.conftest import make_log, make_row

BOTH = ("PASSED t.py::new", "PASSED t.py::old")


def test_resolved() -> None:
    verdict = grade_log(make_row(), make_log(*BOTH))
    assert (verdict.status, verdict.resolved, verdict.resolution, verdict.exit_code) == ("resolved", True, "full", 0)
    assert verdict.results == {"t.py::new": "PASSED", "t.py::old": "PASSED"}
    assert verdict.tests_status is not None
    assert verdict.tests_status["FAIL_TO_PASS"].success == ("t.py::new",)


@pytest.mark.parametrize(
    ("new", "old", "resolution"),
    [
        ("XFAIL", "XFAIL", "full"),
        ("PASSED", "SKIPPED", "full"),
        ("SKIPPED", "PASSED", "no"),
        ("FAILED", "PASSED", "no"),
        ("ERROR", "PASSED", "no"),
        (None, "PASSED", "no"),
        ("PASSED", "FAILED", "no"),
        ("PASSED", None, "no"),
    ],
)
def test_what_counts_as_passing(new: str | None, old: str | None, resolution: str) -> None:
    lines = [f"{word} t.py::{name}" for word, name in ((new, "new"), (old, "old")) if word]
    verdict = grade_log(make_row(), make_log(*lines, code=None))
    assert verdict.resolution == resolution
    assert verdict.resolved is (resolution == "full")
    assert verdict.results["t.py::new"] == (new or "MISSING")


def test_partial_needs_all_that_passed_before() -> None:
    row = make_row(fail=("t.py::a", "t.py::b"))
    half = ("PASSED t.py::a", "FAILED t.py::b - x")
    assert grade_log(row, make_log(*half, "PASSED t.py::old", code=1)).resolution == "partial"
    assert grade_log(row, make_log(*half, "FAILED t.py::old", code=1)).resolution == "no"


def test_empty_lists_are_fulfilled() -> None:
    assert grade_log(make_row(keep=()), make_log("PASSED t.py::new")).resolved
    assert grade_log(make_row(fail=(), keep=()), make_log("PASSED t.py::x")).resolved


def test_ids_that_were_cut_stand_for_all_that_start_so_if_these_agree() -> None:
    row = make_row("astropy/astropy", fail=("t.py::a[sin(",), keep=())
    alike = ("PASSED t.py::a[sin( x) 1]", "XFAIL t.py::a[sin( y) 2]")
    assert grade_log(row, make_log(*alike)).resolved
    split = grade_log(row, make_log(*alike, "FAILED t.py::a[sin( z) 3] - boom", code=1))
    assert split.results == {"t.py::a[sin(": "MISSING"}
    kept = make_row("astropy/astropy", fail=(), keep=("t.py::a[sin(",))
    skipped, failed = "t.py::a[sin( y) 2] SKIPPED", "FAILED t.py::a[sin( z) 3] - boom"
    assert grade_log(kept, make_log(skipped)).resolved
    assert grade_log(kept, make_log(skipped, failed, code=1)).results == {"t.py::a[sin(": "FAILED"}
    whole = make_row("astropy/astropy", fail=("t.py::a",), keep=())
    assert not grade_log(whole, make_log("PASSED t.py::a[1]")).resolved


@pytest.mark.parametrize(("marker", "reason"), FAILURES.items())
def test_failure_markers_end_the_matter(marker: str, reason: str) -> None:
    verdict = grade_log(make_row(), make_log(*BOTH, after=f"{marker}\n"))
    assert (verdict.status, verdict.resolved, verdict.reason) == ("unresolved", False, reason)
    assert verdict.tests_status is None


def test_logs_that_cannot_be_graded() -> None:
    row = make_row()
    whole = make_log(*BOTH)
    for log, reason in (
        ("\n".join(BOTH), "no_markers"),
        (whole.replace(START, ""), "no_markers"),
        (whole.replace(END, ""), "no_markers"),
        ("", "no_markers"),
        (make_log("ImportError: no module", code=4), "nothing_ran"),
        (make_log(*BOTH, code=1), "forged_pass"),
    ):
        verdict = grade_log(row, log)
        assert (verdict.status, verdict.resolved, verdict.reason, verdict.infra) == ("unresolved", False, reason, None)


def test_results_outside_the_markers_count_when_there_are_none_inside() -> None:
    assert grade_log(make_row(), make_log(before="\n".join(BOTH) + "\n")).resolved
    inside = make_log("FAILED t.py::new", "PASSED t.py::old", before="\n".join(BOTH) + "\n", code=1)
    assert not grade_log(make_row(), inside).resolved


def test_output_cannot_pretend_to_be_the_end() -> None:
    forged = (
        make_log(*BOTH, f"+ : '{END}'", f"{EXIT_CODE}: 0", "FAILED t.py::new", code=1),
        make_log(*BOTH, f"{EXIT_CODE}: 0", code=1),
        make_log(*BOTH, before=make_log(*BOTH), code=1),
        f"+ : '{END}'\n+ : '{START}'\n" + "\n".join(BOTH),
    )
    for log in forged:
        assert grade_log(make_row(), log).reason == "forged_markers"


def test_facts_beside_the_log() -> None:
    row, log = make_row(), make_log("PASSED t.py::old", code=None)
    assert grade_log(row, make_log(*BOTH), Facts(timed_out=True)).reason == "timed_out"
    for facts, reason in (
        (Facts(out_of_memory=True), "out_of_memory"),
        (Facts(cut_short=True), "cut_short"),
        (Facts(exit_code=137), "killed"),
    ):
        stopped = grade_log(row, log if facts.exit_code is None else "", facts)
        assert (stopped.status, stopped.resolved) == ("infra", None)
        assert stopped.infra is not None
        assert stopped.infra.reason == reason
    assert grade_log(row, make_log(*BOTH, code=None), Facts(out_of_memory=True)).resolved
    failed = grade_log(row, make_log("FAILED t.py::new", code=None), Facts(out_of_memory=True))
    assert (failed.status, failed.suspect is not None) == ("unresolved", True)


def test_odd_text_is_no_trouble() -> None:
    odd = "\ud800\x00\x1b[31m\r\u2028"
    assert grade_log(make_row(), make_log(*BOTH, odd, before=odd)).resolved
    broken = grade_log(make_row(), f"{odd} No space left on device {odd}\n")
    assert broken.status == "infra"
    assert json.loads(broken.model_dump_json())["infra"]["reason"] == "no_space"
    assert grade_log(make_row(), make_log(*BOTH, code=None, after=f"{EXIT_CODE}: {'9' * 6000}\n")).exit_code is None


def test_real_logs_have_their_published_verdicts(real: Path) -> None:
    rows = read_rows(real / "verified-10.jsonl")
    cases = [json.loads(line) for line in (real / "grading-cases.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(cases) == 50
    for case in cases:
        verdict = grade_log(rows[case["instance_id"]], case["log"])
        counts = {name: [len(p.success), len(p.failure)] for name, p in (verdict.tests_status or {}).items()}
        expected = case["expected"]
        assert (verdict.resolved, verdict.graded, counts or None, verdict.infra is not None) == (
            expected["resolved"],
            expected["patch_successfully_applied"],
            expected["counts"],
            expected["infra_failure"],
        ), case["case"]
