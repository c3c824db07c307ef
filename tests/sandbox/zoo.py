"""The zoo: commands that do not repeat themselves, each run twice, and how alike both outputs are."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.sandbox.scrub import scrubbed_digest

CLASSES = ("raw_equal", "scrubbed_equal", "forks")
"""From best to worst."""
BETWEEN = 2.0
"""Seconds between the end of the first round and the second: clocks must move on."""
AT_ONCE = 4


@dataclass(frozen=True)
class Case:
    """One command."""

    name: str
    why: str
    command: str
    expected: str
    must_fork: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """What both rounds printed."""

    case: Case
    rounds: tuple[RunResult, RunResult]

    @property
    def found(self) -> str:
        """How alike they are."""
        one, other = self.rounds
        if (one.exit_code, one.stdout, one.stderr) == (other.exit_code, other.stdout, other.stderr):
            return "raw_equal"
        same = scrubbed_digest(one, self.case.command) == scrubbed_digest(other, self.case.command)
        return "scrubbed_equal" if same else "forks"

    @property
    def wrong(self) -> str | None:
        """What is wrong with it, in words."""
        if self.case.must_fork and self.found != "forks":
            return f"{self.case.name}: must fork ({self.case.why}), is {self.found}: {self.rounds}"
        if CLASSES.index(self.found) > CLASSES.index(self.case.expected):
            return f"{self.case.name}: {self.case.expected} at least, is {self.found}: {self.rounds}"
        return None


def cases() -> list[Case]:
    """Every case of zoo.toml."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [Case(**{**one, "needs": tuple(one.get("needs", ()))}) for one in table["case"]]


def visit(sandbox: Sandbox, environment: Environment, chosen: Sequence[Case]) -> list[Seen]:
    """Run every case in two rounds, each time as the first command of a fresh sandbox."""

    def first(case: Case) -> RunResult:
        session = sandbox.open(environment)
        try:
            return session.run(case.command, timeout=10)
        finally:
            session.close()

    rounds: list[list[RunResult]] = []
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for number in range(2):
            if number:
                time.sleep(BETWEEN)
            rounds.append(list(pool.map(first, chosen)))
    return [Seen(case, pair) for case, pair in zip(chosen, zip(*rounds, strict=True), strict=True)]


def usable(sandbox: Sandbox, environment: Environment, chosen: Sequence[Case]) -> list[Case]:
    """The cases whose programs are there."""
    session = sandbox.open(environment)
    try:
        wanted = {program for case in chosen for program in case.needs}
        there = {one for one in wanted if session.run(f"command -v {one}", timeout=10).exit_code == 0}
    finally:
        session.close()
    return [case for case in chosen if there.issuperset(case.needs)]
