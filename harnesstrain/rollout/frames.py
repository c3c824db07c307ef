"""Where in a verifier's output tests ran, and what came of them.

What lies between the head and the closing line of a test run may have been printed by the code under test.  Only the
lines outside of that speak for the verifier.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_UNITTEST = re.compile(r"^(Ran \d+ tests? in .*)\n\n(OK|FAILED)", re.MULTILINE)
"""Its closing line says only two lines later how it went."""


@dataclass(frozen=True, slots=True)
class Frame:
    """How one test runner opens and closes a run."""

    name: str
    closed: str
    """A line that ends a run; group `failed` is there when something failed."""
    opened: str | None = None
    """A line that begins one; None: it does not say."""


FRAMES: tuple[Frame, ...] = (
    Frame(
        name="pytest",
        opened=r"^=+ test session starts =+$",
        closed=(
            r"^(?:=+ )?(?=\d+ (?:passed|failed|skipped|errors?|xfailed|xpassed|deselected|warnings?)\b)"
            r"(?:.*?\b(?P<failed>failed|errors?)\b)?.* in \d+(?:\.\d+)?s\b.*$"
        ),
    ),
    Frame(name="unittest", closed=r"^Ran \d+ tests? in \d+\.\d+s (?:OK|(?P<failed>FAILED))\b"),
    Frame(name="cargo", opened=r"^running \d+ tests?$", closed=r"^test result: (?:ok|(?P<failed>FAILED))\. \d+ passed"),
    Frame(name="go", closed=r"^(?:ok|(?P<failed>FAIL))\s+\S+\s+(?:\d+\.\d+s|\(cached\))"),
    Frame(name="jest", closed=r"^Tests: +(?=.*\d+ total)(?:.*?(?P<failed>\d+ failed))?.*$"),
    Frame(name="junit", closed=r"^(?:\[\w+\] )?Tests run: \d+, Failures: (?:0, Errors: 0\b|(?P<failed>\d+)).*$"),
    Frame(name="ctest", closed=r"^\d+% tests passed, (?:0|(?P<failed>\d+)) tests failed out of \d+"),
)

_EMPTY = re.compile(
    r"^=+ (?:no tests (?:ran|collected)|\d+ tests? collected|\d+/\d+ tests collected)\b.* in \d+\.\d+s\b"
)
"""Closes a run of pytest in which no test ran."""
LINE = 1000
"""Characters of a line that are looked at: a pattern must not take long, whatever is printed."""

_OPENED = re.compile("|".join(f"(?:{frame.opened})" for frame in FRAMES if frame.opened))
_CLOSED = tuple(re.compile(frame.closed) for frame in FRAMES)


@dataclass(frozen=True, slots=True)
class Told:
    """What a verifier's output tells about its tests."""

    ran: int
    """Runs that reported."""
    failed: bool
    """One of them reported a failure."""
    unfinished: bool
    """The last run began and never reported."""
    outside: tuple[str, ...]
    """Lines outside of runs, after the last one that was closed; where none was, all outside of runs."""

    @property
    def began(self) -> bool:
        """Whether any test run began."""
        return self.ran > 0 or self.unfinished


def read(output: str) -> Told:
    """Find the test runs in `output`."""
    outside: list[str] = []
    ran, failed, inside = 0, False, False
    for whole in _UNITTEST.sub(r"\1 \2", _ESCAPE.sub("", output)).splitlines():
        line = whole[:LINE]
        found = next((match for pattern in _CLOSED if (match := pattern.search(line))), None)
        if found is not None:
            ran, failed, inside, outside = ran + 1, failed or bool(found.group("failed")), False, []
        elif _EMPTY.search(line):
            inside, outside = False, []
        elif _OPENED.search(line):
            inside = True
        elif not inside:
            outside.append(line)
    return Told(ran, failed, inside, tuple(outside))


def reported(told: Told, ctrf: bytes | None) -> Told:
    """`told`, with what a CTRF report beside the reward adds, where the output itself shows no run."""
    if told.ran or ctrf is None:
        return told
    try:
        summary = json.loads(ctrf)["results"]["summary"]
        tests, failures = int(summary["tests"]), int(summary.get("failed", 0))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return told
    if tests < 1:
        return told
    return Told(1, failures > 0, unfinished=False, outside=())
