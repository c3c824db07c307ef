"""The tasks and what they need."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tests.storied.plot import GAINS

NAMES = (
    "average-temperature", "change-server-port", "count-error-lines", "csv-to-json", "dedupe-keep-order",
    "errors-per-service", "extract-report", "find-todo-files", "fix-countdown", "fix-leap-year", "fix-shopping-cart",
    "fix-unit-converter", "json-active-members", "json-stock-value", "largest-file", "make-project-tree",
    "merge-service-logs", "most-common-words", "rename-function", "replace-hostname",
)  # fmt: skip
FAILURES = ("failed_verification", "no_submit:step_limit", "no_submit:gave_up", "policy_crash:", "failed_verification")
"""How a task ends that is not solved: outcome and reason."""


@dataclass(frozen=True)
class Need:
    """A task, and what it takes to solve it."""

    name: str
    ability: str | None
    """None: the first baseline can do it; "never": nothing helps."""
    failure: str
    acts: float
    """Where in its course the harness's abilities show: share of its steps."""

    def broken_by(self, ability: str) -> bool:
        """Whether an ability is a fault that breaks the task."""
        return ability.startswith("fault") and hashlib.sha256(f"{ability} {self.name}".encode()).digest()[3] < 64


def needs(count: int) -> list[Need]:
    """So many tasks: two of ten solved from the start, one of ten out of reach, the others waiting for an ability."""
    made = []
    for number in range(count):
        name = NAMES[number % len(NAMES)] + (f"-{number // len(NAMES) + 1}" if number >= len(NAMES) else "")
        dice = hashlib.sha256(name.encode()).digest()
        ability: str | None = GAINS[(number * 5 + number // len(GAINS)) % len(GAINS)][0]
        if number % 10 in (2, 7):
            ability = None
        elif number % 10 == 9:
            ability = "never"
        made.append(Need(name, ability, FAILURES[dice[2] % len(FAILURES)], (dice[3] % 5) / 6))
    return made
