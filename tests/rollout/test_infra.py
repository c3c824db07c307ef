"""The third state: which output says that the verifier's own infrastructure failed, and which does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.rollout import infra
from harnesstrain.rollout.frames import read, reported
from harnesstrain.rollout.infra_rules import OUTSIDE, RULES, SETUP, Rule

REAL = Path(__file__).resolve().parents[3] / "shared/realdata/harbor-jobs"

NO_INSTALLER = """\
Err:1 http://deb.debian.org/debian trixie InRelease
  Temporary failure resolving 'deb.debian.org'
Reading package lists...
curl is already the newest version (8.14.1-2+deb13u7).
curl: (6) Could not resolve host: astral.sh
/tests/test.sh: line 9: /root/.local/bin/env: No such file or directory
/tests/test.sh: line 14: uvx: command not found
"""
"""What the standard verifier of a published task prints without a network; its reward is 0."""

HEAD = """\
============================= test session starts ==============================
platform linux -- Python 3.13.5, pytest-8.4.1, pluggy-1.7.0
rootdir: /tests
collected 2 items

"""
PASSED = f"{HEAD}../tests/test_state.py ..  [100%]\n\n{'=' * 30} 2 passed in 0.07s {'=' * 31}\n"
FAILED = f"""{HEAD}../tests/test_state.py .F  [100%]

----------------------------- Captured stdout call -----------------------------
uvx: command not found
curl: (6) Could not resolve host: astral.sh
=========================== short test summary info ============================
FAILED ../tests/test_state.py::test_b - assert 1 == 2
========================= 1 failed, 1 passed in 0.09s ==========================
"""


def sign(output: str, ctrf: bytes | None = None) -> str | None:
    """The rule by which a failing reward is infrastructure's."""
    found = infra.sign_of_failing(reported(read(output), ctrf))
    return found.rule if found else None


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_each_rule_proves_itself(rule: Rule) -> None:
    assert rule.where in (SETUP, OUTSIDE)
    assert rule.matches
    assert rule.ignores
    for line in rule.matches:
        assert re.search(rule.pattern, line), line
    for line in rule.ignores:
        assert not any(re.search(one.pattern, line) for one in RULES), line


def test_the_first_rule_is_the_cause() -> None:
    found = infra.sign_of_failing(read(NO_INSTALLER))
    assert found == infra.Sign("no_network", "Temporary failure resolving 'deb.debian.org'")
    assert sign("/tests/test.sh: line 14: uvx: command not found\n") == "tool_missing"


def test_text_inside_a_test_report_does_not_count() -> None:
    assert sign(FAILED) is None
    assert sign(PASSED) is None
    assert sign(FAILED + NO_INSTALLER) is None  # a test failed: that is measured, whatever follows


def test_a_network_lost_before_the_tests_that_ran_all_the_same() -> None:
    assert sign(NO_INSTALLER.replace("uvx", "apt-cache") + FAILED) is None


def test_a_network_lost_half_way() -> None:
    """The first part ran and passed; the second could not be installed."""
    assert sign(PASSED + "  × Failed to download `numpy==2.1.0`\n") == "package_index"
    assert sign(PASSED) is None
    assert sign(PASSED + "bash: /tests/run.sh: No such file or directory\n") is None  # a rule of the set-up only


def test_tests_that_began_and_never_reported_are_a_loss() -> None:
    told = read(HEAD + "uvx: command not found\n/tests/test.sh: line 14:  123 Killed  uvx pytest\n")
    assert (told.ran, told.unfinished, told.outside) == (0, True, ())
    assert infra.sign_of_failing(told) is None


def test_a_ctrf_report_says_that_tests_ran() -> None:
    ctrf = b'{"results": {"summary": {"tests": 2, "passed": 1, "failed": 1}}}'
    quiet = "uvx: command not found\n"
    assert sign(quiet) == "tool_missing"
    assert sign(quiet, ctrf) is None
    for broken in (
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"results": 1}',
        b'{"results": {"summary": 3}}',
        b'{"results": {"summary": {"tests": 0}}}',
        b'{"results": {"summary": {"tests": Infinity}}}',
    ):
        assert sign(quiet, broken) == "tool_missing"


@pytest.mark.parametrize(
    ("closing", "failed"),
    [
        ("2 passed in 0.07s", False),
        ("=== 1 failed, 1 passed in 0.09s ===", True),
        ("=== 1 passed, 3 warnings in 61.20s (0:01:01) ===", False),
        ("=== 1 passed, 1 error in 2.00s ===", True),
        ("Ran 3 tests in 0.012s\n\nOK", False),
        ("Ran 3 tests in 0.012s\n\nFAILED (failures=1)", True),
        ("test result: ok. 4 passed; 0 failed; 0 ignored", False),
        ("test result: FAILED. 3 passed; 1 failed; 0 ignored", True),
        ("ok  \texample.org/pkg\t0.012s", False),
        ("FAIL\texample.org/pkg\t0.012s", True),
        ("Tests:       5 passed, 5 total", False),
        ("Tests:       1 failed, 4 passed, 5 total", True),
        ("Tests run: 3, Failures: 0, Errors: 0, Skipped: 0", False),
        ("Tests run: 3, Failures: 1, Errors: 0, Skipped: 0", True),
        ("100% tests passed, 0 tests failed out of 3", False),
        ("50% tests passed, 1 tests failed out of 2", True),
    ],
)
def test_runners_that_report(closing: str, failed: bool) -> None:
    told = read(f"some test printed: uvx: command not found\nuvx: command not found\n{closing}\nlater\n")
    assert (told.ran, told.failed, told.unfinished, told.outside) == (1, failed, False, ("later",))


def test_runs_within_runs_stay_inside() -> None:
    """A test that runs pytest itself, shown in the report of a failure."""
    told = read(f"setting up\n{HEAD}{PASSED}uvx: command not found\n=== 1 failed in 0.10s ===\nafter\n")
    assert (told.failed, told.unfinished, told.outside) == (True, False, ("after",))


@pytest.mark.parametrize(
    "closing", ["no tests ran in 0.01s", "2 tests collected in 0.03s", "no tests collected in 0.01s"]
)
def test_a_run_without_tests_is_closed_and_counts_for_nothing(closing: str) -> None:
    told = read(
        f"curl: (6) Could not resolve host: a.b\n{HEAD}uvx: command not found\n{'=' * 20} {closing} {'=' * 20}\nafter\n"
    )
    assert (told.ran, told.unfinished, told.outside) == (0, False, ("after",))


def test_no_output_takes_long() -> None:
    """A pattern that went back and forth over this line would not end within the test's time."""
    for text in (
        "1 passed " + "failed in 1 " * 50_000,
        "Tests: " + "1 failed " * 50_000,
        "=" * 300_000,
        "× " * 150_000,
    ):
        assert read(text).outside or read(text).began
        assert sign(text) in (None, "killed")


def test_what_is_no_report() -> None:
    for line in ("OK", "no tests ran in 0.01s", "I passed in 3 tries", "Tests: fine", "Ran 3 tests in total"):
        assert not read(f"{line}\n").began


def missing() -> VerifierFailure:
    return VerifierFailure("the verifier wrote no reward", missing=True)


@pytest.mark.parametrize(
    ("output", "exit_code", "failure", "rule"),
    [
        (NO_INSTALLER, 1, missing(), "no_network"),
        (PASSED + "uvx: command not found\n", 127, missing(), "tool_missing"),
        ("", 137, missing(), "killed"),
        ("", 143, missing(), "killed"),
        (FAILED, 1, missing(), "no_reward"),
        ("", 0, VerifierFailure("the verifier's reward.txt is empty"), "malformed_reward"),
        (HEAD, 124, None, "timed_out"),
    ],
)
def test_without_a_reward(output: str, exit_code: int, failure: VerifierFailure | None, rule: str) -> None:
    told = read(output)
    found = infra.sign_without_reward(told, exit_code, failure, 600)
    assert found.rule == rule
    said = infra.failure_of(found, told, exit_code, output, None)
    assert said.message.startswith(f"{rule}: {found.evidence} (test.sh exited {exit_code}")
    assert ("after the tests began" in said.message) is told.began
    assert (said.extra["rule"], said.extra["evidence"]) == (rule, found.evidence)


@pytest.mark.parametrize("job", ["sample-oracle", "sample-nop"])
def test_real_outputs(job: str) -> None:
    """What a published verifier printed, passing and failing: no sign of broken infrastructure in any."""
    outputs = sorted((REAL / job).rglob("verifier/test-stdout.txt"))
    if not outputs:
        pytest.skip("no recorded jobs beside the project")
    for path in outputs:
        ctrf = path.with_name("ctrf.json")
        assert sign(path.read_text(), ctrf.read_bytes() if ctrf.exists() else None) is None, path


def test_other_rules_are_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = infra.version()
    infra.version.cache_clear()
    monkeypatch.setattr(infra, "RULES", RULES[1:])
    try:
        assert infra.version() != before
    finally:
        infra.version.cache_clear()
