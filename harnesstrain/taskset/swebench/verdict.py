"""A log and a row → a verdict with three states: resolved, unresolved, or infra (no grade at all).

The rules are those of the published grader: every FAIL_TO_PASS test passes, every PASS_TO_PASS test passes or is
skipped, a test that the log does not name has failed.  Stricter: markers that appear twice are a forgery.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from enum import StrEnum
from itertools import islice, takewhile

from harnesstrain.core.records.base import Record
from harnesstrain.taskset.swebench.infra import KILLED, Infra, find_sign
from harnesstrain.taskset.swebench.parsers import Result, parser_of
from harnesstrain.taskset.swebench.rows import FAIL_TO_PASS, PASS_TO_PASS, Row

START = ">>>>> Start Test Output"
END = ">>>>> End Test Output"
EXIT_CODE = ">>>>> Test Exit Code"
APPLIED = ">>>>> Applied Patch"

_EXIT = re.compile(re.escape(EXIT_CODE) + r":[ \t]*(-?[0-9]{1,9})(?![0-9])")


class Status(StrEnum):
    """The three states of a grade."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    INFRA = "infra"


class Resolution(StrEnum):
    """How much of the instance is solved."""

    FULL = "full"
    PARTIAL = "partial"
    """Some FAIL_TO_PASS tests pass, all PASS_TO_PASS tests do."""
    NO = "no"


class Reason(StrEnum):
    """Why a log was not graded test by test."""

    APPLY_FAILED = "apply_failed"
    RESET_FAILED = "reset_failed"
    TESTS_ERRORED = "tests_errored"
    TIMED_OUT = "timed_out"
    NO_MARKERS = "no_markers"
    """The start or the end of the test output is not there."""
    FORGED_MARKERS = "forged_markers"
    """A marker is there twice."""
    NOTHING_RAN = "nothing_ran"
    FORGED_PASS = "forged_pass"
    """The test command failed, and its output shows no failure."""


FAILURES = {
    ">>>>> Patch Apply Failed": Reason.APPLY_FAILED,
    ">>>>> Reset Failed": Reason.RESET_FAILED,
    ">>>>> Tests Errored": Reason.TESTS_ERRORED,
    ">>>>> Tests Timed Out": Reason.TIMED_OUT,
}
"""Markers that end the matter wherever they stand."""

_POLICY = frozenset({Reason.TIMED_OUT, Reason.FORGED_MARKERS})
"""Never the infrastructure's fault."""


class Facts(Record):
    """What is known of the process that wrote a log, beside the log."""

    exit_code: int | None = None
    """Of the test command; None: as the log says."""
    timed_out: bool = False
    out_of_memory: bool = False
    """The kernel killed for want of memory."""
    cut_short: bool = False
    """The container ended before its script did."""


class Sorted(Record):
    """One list of tests, parted."""

    success: tuple[str, ...]
    failure: tuple[str, ...]


class Verdict(Record):
    """What a log says about an instance."""

    instance_id: str
    status: Status
    resolved: bool | None
    """None: infra, neither yes nor no."""
    resolution: Resolution | None = None
    """None when the log could not be graded test by test."""
    reason: Reason | None = None
    """Why it could not."""
    infra: Infra | None = None
    """Only with status infra."""
    suspect: Infra | None = None
    """A sign of broken infrastructure in a log that was graded all the same."""
    exit_code: int | None = None
    """Of the test command, when it is known."""
    tests_status: dict[str, Sorted] | None = None
    """FAIL_TO_PASS and PASS_TO_PASS, each parted; None when not graded."""
    results: dict[str, Result] = {}
    """Every expected test's own result."""

    @property
    def graded(self) -> bool:
        """Whether each expected test was looked up in the log."""
        return self.tests_status is not None


_NO_FACTS = Facts()
_WORST = (Result.ERROR, Result.FAILED, Result.SKIPPED, Result.XFAIL, Result.PASSED)


def grade_log(row: Row, log: str, facts: Facts = _NO_FACTS) -> Verdict:
    """The verdict of a log.  Raises ConfigError when the row's repository has no parser."""
    parse = parser_of(row.repo)
    exit_code = facts.exit_code if facts.exit_code is not None else _exit_code(log)
    reason = _unfit(log, facts)
    if reason is not None:
        return _ungraded(row, log, facts, reason, exit_code)
    found = parse(log.split(START, 1)[1].split(END, 1)[0]) or parse(log)
    if not found:
        return _ungraded(row, log, facts, Reason.NOTHING_RAN, exit_code)
    if exit_code and not any(result in (Result.FAILED, Result.ERROR) for result in found.values()):
        return _ungraded(row, log, facts, Reason.FORGED_PASS, exit_code)
    return _graded(row, log, facts, found, exit_code)


def _exit_code(log: str) -> int | None:
    """Of the test command, as the script says after the test output."""
    match = _EXIT.search(log.rpartition(END)[2]) if END in log else None
    return int(match[1]) if match else None


def _unfit(log: str, facts: Facts) -> Reason | None:
    for marker, reason in FAILURES.items():
        if marker in log:
            return reason
    if facts.timed_out:
        return Reason.TIMED_OUT
    if START not in log or END not in log:
        return Reason.NO_MARKERS
    codes = len(_EXIT.findall(log))
    if log.count(START) > 1 or log.count(END) > 1 or codes > 1 or log.find(END) < log.find(START):
        return Reason.FORGED_MARKERS
    return None


def _ungraded(row: Row, log: str, facts: Facts, reason: Reason, exit_code: int | None) -> Verdict:
    infra = None if reason in _POLICY else _stopped(facts, exit_code) or find_sign(log, START)
    return Verdict(
        instance_id=row.instance_id,
        status=Status.INFRA if infra else Status.UNRESOLVED,
        resolved=None if infra else False,
        reason=reason,
        infra=infra,
        exit_code=exit_code,
    )


def _stopped(facts: Facts, exit_code: int | None) -> Infra | None:
    """How the run was stopped from outside, if it was."""
    if facts.out_of_memory:
        return Infra(reason="out_of_memory", evidence="the kernel killed the tests for want of memory")
    if facts.cut_short:
        return Infra(reason="cut_short", evidence="the container ended before the tests did")
    if exit_code in KILLED:
        return Infra(reason="killed", evidence=f"the test command exited {exit_code}")
    return None


def _graded(row: Row, log: str, facts: Facts, found: dict[str, Result], exit_code: int | None) -> Verdict:
    names = sorted(found)
    results = {test: _result_of(test, found, names) for test in (*row.fail_to_pass, *row.pass_to_pass)}
    fixed = _sorted(row.fail_to_pass, results, ())
    kept = _sorted(row.pass_to_pass, results, (Result.SKIPPED,))
    resolution = _resolution(fixed, kept)
    resolved = resolution is Resolution.FULL
    stopped = _stopped(facts, exit_code)
    lost = all(results[test] is Result.MISSING for test in (*fixed.failure, *kept.failure))
    infra = stopped if stopped and lost and not resolved else None
    return Verdict(
        instance_id=row.instance_id,
        status=Status.INFRA if infra else Status.RESOLVED if resolved else Status.UNRESOLVED,
        resolved=None if infra else resolved,
        resolution=resolution,
        infra=infra,
        suspect=None if resolved or infra else stopped or find_sign(log, START),
        exit_code=exit_code,
        tests_status={FAIL_TO_PASS: fixed, PASS_TO_PASS: kept},
        results=results,
    )


def _result_of(test: str, found: dict[str, Result], names: list[str]) -> Result:
    """The result of an expected test.  `names`: those of `found`, sorted.

    Some published ids were cut inside their parameters (more `[` than `]`).  Such an id stands for every test that
    starts with it, if those agree on whether they pass; it is then what the worst of them is.
    """
    if test in found:
        return found[test]
    if test.count("[") > test.count("]"):
        first = bisect_left(names, test)
        alike = {found[name] for name in takewhile(lambda name: name.startswith(test), islice(names, first, None))}
        if len({result.passing for result in alike}) == 1:
            return next(result for result in _WORST if result in alike)
    return Result.MISSING


def _sorted(tests: Iterable[str], results: dict[str, Result], also: tuple[Result, ...]) -> Sorted:
    success: list[str] = []
    failure: list[str] = []
    for test in tests:
        (success if results[test].passing or results[test] in also else failure).append(test)
    return Sorted(success=tuple(success), failure=tuple(failure))


def _resolution(fixed: Sorted, kept: Sorted) -> Resolution:
    if kept.failure:
        return Resolution.NO
    if not fixed.failure:
        return Resolution.FULL
    return Resolution.PARTIAL if fixed.success else Resolution.NO
