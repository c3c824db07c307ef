"""The five parsers: what the tests printed → which passed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.taskset.terminalbench.parsers import PARSERS, graded, parse

SUMMARY = "=========================== short test summary info ============================\n"


def test_pytest_reads_names_and_states() -> None:
    text = (
        "FAILED before/test_x.py::test_before - is not in the summary\n"
        + SUMMARY
        + "PASSED ../tests/test_outputs.py::test_a\n"
        "XFAIL test_outputs.py::TestB::test_b - known\n"
        "SKIPPED [1] test_outputs.py:3: not here\n"
        "FAILED test_outputs.py::test_c[x - y] - AssertionError: a - b\n"
        "XPASS test_outputs.py::test_d\n"
        "ERROR test_outputs.py\n"
        "PASSEDtest_outputs.py::test_e\nPASSED\n= 2 passed, 1 failed =\n"
    )
    assert parse("pytest", text) == {
        "test_a": True,
        "TestB::test_b - known": True,
        "[1] test_outputs.py:3: not here": True,
        "test_c[x - y] - AssertionError: a": False,
        "test_d": False,
        "test_outputs.py": False,
    }


def test_pytest_reads_colours_and_a_summary_without_paths() -> None:
    assert parse("pytest", f"\x1b[36m{SUMMARY}\x1b[0m\x1b[32mPASSED\x1b[0m polyglot_test\r\n") == {
        "polyglot_test": True
    }


def test_a_name_that_failed_once_has_failed() -> None:
    forged = f"{SUMMARY}PASSED t.py::test_a\n{SUMMARY}FAILED t.py::test_a - no\nPASSED t.py::test_a\n"
    assert parse("pytest", forged) == {"test_a": False}
    assert graded("pytest", forged.encode()).reward == 0.0


@pytest.mark.parametrize(
    ("parser", "title", "good"),
    [
        ("swebench", "SWEBench", "PASSED"),
        ("sweperf", "SWE-Perf", "PASSED"),
        ("mlebench", "MLEBench", "ALL TESTS PASSED"),
    ],
)
def test_blocks(parser: str, title: str, good: str) -> None:
    def block(text: str) -> bytes:
        return f"noise\n{title} results starts here\n{text}\n{title} results ends here\n".encode()

    assert graded(parser, block(good)).reward == 1.0
    assert graded(parser, block(f"{good}!")).reward == 0.0
    assert graded(parser, block("FAILED")).reward == 0.0
    assert graded(parser, block(good) + block("FAILED")).reward == 0.0, "a forged block hides no failure"
    with pytest.raises(VerifierFailure):
        graded(parser, block(good).replace(b"ends here", b""))


def test_swelancer() -> None:
    assert graded("swelancer", b"... swe lancer success\n").reward == 1.0
    assert graded("swelancer", b"swe lancer failure\nswe lancer success\n").reward == 0.0


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("output", [b"", b"bash: uvx: command not found\n", SUMMARY.encode(), b"\xff\xfe\x00"])
def test_nothing_is_no_grade(parser: str, output: bytes) -> None:
    with pytest.raises(VerifierFailure) as caught:
        graded(parser, output)
    assert caught.value.hint


@given(st.sampled_from(PARSERS), st.text())
def test_any_text_is_graded_or_refused(parser: str, text: str) -> None:
    try:
        assert parse(parser, text)
    except VerifierFailure:
        return


@given(st.lists(st.tuples(st.text("abc", min_size=1), st.sampled_from(["PASSED", "FAILED"])), min_size=1))
def test_all_must_pass(results: list[tuple[str, str]]) -> None:
    text = SUMMARY + "".join(f"{status} t.py::{name}\n" for name, status in results)
    assert graded("pytest", text.encode()).reward == float(all(status == "PASSED" for _, status in results))
