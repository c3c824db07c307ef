"""The third state of a grade: was it the verifier's own infrastructure that failed?

Decided from what the verifier printed and how it ended, never from a reward alone.  A passing reward is never doubted
here.  A failing one is infrastructure's only when a sign of that stands where the code under test does not print:

* no test ran: in any line;
* every test that ran passed: in a line after that;
* a test failed, or the tests began and never reported: nowhere.  That is a loss, whatever else is printed.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import VerifierFailure
from harnesstrain.rollout.frames import FRAMES, Told
from harnesstrain.rollout.infra_rules import FACTS, KILLED, OUTSIDE, RULES

EVIDENCE = 200
"""Characters of a line that are quoted, at most."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Why a verifier gave no grade."""

    rule: str
    """Name of a rule, or one of FACTS."""
    evidence: str
    """The line that says so, or the fact."""


@functools.cache
def version() -> str:
    """Digest of the rules: what was graded under other rules is graded again."""
    rules = [[rule.name, rule.pattern, rule.where] for rule in RULES]
    return digest([rules, [[frame.opened, frame.closed] for frame in FRAMES], list(FACTS)])


def sign_of_failing(told: Told) -> Sign | None:
    """The sign that a reward which does not pass is infrastructure's; None: it is the submission's."""
    if told.failed or told.unfinished:
        return None
    return _found(told.outside, after_tests=told.ran > 0)


def sign_without_reward(told: Told, exit_code: int, failure: VerifierFailure | None, limit: float) -> Sign:
    """Why there is no reward.  `failure`: what is wrong with its files; None: the verifier ran past `limit` seconds."""
    sign = None if told.failed else _found(told.outside, after_tests=told.ran > 0)
    if sign is not None:
        return sign
    if failure is None:
        return Sign("timed_out", f"the verifier ran past {limit:g} s")
    if exit_code in KILLED:
        return Sign("killed", FACTS["killed"])
    return Sign("no_reward" if failure.extra.get("missing") else "malformed_reward", failure.message)


def failure_of(
    sign: Sign, told: Told, exit_code: int, output: str, hint: str | None, noted: str = ""
) -> VerifierFailure:
    """`sign` as the error that says it.  `noted`: what the submitted state has to do with it, if anything."""
    when = ", after the tests began" if told.began else ""
    message = f"{sign.rule}: {sign.evidence} (test.sh exited {exit_code}{when})"
    return VerifierFailure(
        f"{message}; {noted}" if noted else message,
        hint=hint or "`ht tasks oracle` runs the verifier on the reference solution",
        rule=sign.rule,
        evidence=sign.evidence,
        ended=exit_code,
        output=output,
    )


@functools.cache
def _compiled() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((rule.name, rule.where, re.compile(rule.pattern)) for rule in RULES)


def _found(lines: tuple[str, ...], *, after_tests: bool) -> Sign | None:
    for name, where, pattern in _compiled():
        if after_tests and where != OUTSIDE:
            continue
        for line in lines:
            if pattern.search(line):
                return Sign(name, line.strip()[:EVIDENCE])
    return None
