"""The actions of an episode so far, with their records and the keys that stand for what they lead to.

The step key covers what determines an action's result: sandbox, limits, environment, every action before it, itself.
The state key covers the results too: a kept state is used only where everything was seen that led to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harnesstrain.core.digests import digest, digest_bytes, roll
from harnesstrain.core.records.cache import StepEntry
from harnesstrain.core.records.sandbox import Limits, RunResult, SandboxIdentity
from harnesstrain.core.records.task import Environment
from harnesstrain.rollout.action import Acted, Action
from harnesstrain.sandbox import scrub

WORKDIR = StepEntry(result=RunResult(exit_code=0), scrubbed="", raw="", rules="")
"""Form of the entry under a start key: its stdout is the directory in which commands start."""


@dataclass(frozen=True, slots=True)
class Link:
    """One action that was answered."""

    step: int
    """Index of its step in the episode."""
    action: Action
    entry: StepEntry
    key: str
    """Step key (64 hex)."""
    state: str
    """State key (64 hex)."""

    @property
    def clean(self) -> bool:
        """Whether the action ended by itself and left no process of its own."""
        result = self.entry.result
        return not (result.timed_out or result.held_open or result.left)


class Chain:
    """Answered actions in order.  Only grows."""

    def __init__(self, start: str) -> None:
        """`start`: key of the environment in which nothing was done."""
        self.start = start
        self.links: list[Link] = []
        self._next: tuple[int, str, str] | None = None
        """The key asked for last: length of the chain, digest of the action, key."""

    def __len__(self) -> int:
        return len(self.links)

    @property
    def key(self) -> str:
        """Step key of the last action."""
        return self.links[-1].key if self.links else self.start

    def next(self, action: Action) -> str:
        """The step key that `action` would have."""
        found = self._next
        if found is None or found[:2] != (len(self.links), action.digest):
            found = self._next = (len(self.links), action.digest, roll(self.key, action.digest))
        return found[2]

    def add(self, step: int, action: Action, entry: StepEntry) -> Link:
        """Take an answered action in."""
        before = self.links[-1].state if self.links else self.start
        link = Link(step, action, entry, self.next(action), roll(before, [action.digest, entry.scrubbed]))
        self.links.append(link)
        return link


def start_key(sandbox: SandboxIdentity, limits: Limits, environment: Environment) -> str:
    """Key of an environment in which nothing was done yet."""
    return digest({"sandbox": sandbox, "limits": limits, "environment": environment})


def cut_key(step: str, seconds: float) -> str:
    """Under which it is remembered that the action of the step key `step` takes longer than `seconds`."""
    return roll(step, {"longer than": int(seconds * 1000)})


def entry_of(action: Action, acted: Acted) -> StepEntry:
    """The record of an action that was executed."""
    result, fault = acted.result, acted.fault
    return StepEntry(
        result=result,
        scrubbed=scrub.scrubbed_digest(result, action.command),
        raw=digest_bytes(result.stdout + b"\0" + result.stderr),
        rules=scrub.version(),
        errno=fault.errno if fault else None,
        message=fault.message if fault else None,
    )


def current(action: Action, entry: StepEntry) -> StepEntry:
    """`entry` with a digest by the scrub rules in force."""
    if entry.rules == scrub.version():
        return entry
    scrubbed = scrub.scrubbed_digest(entry.result, action.command)
    return entry.model_copy(update={"scrubbed": scrubbed, "rules": scrub.version()})


def states(links: Sequence[Link]) -> tuple[str, ...]:
    """State keys, deepest first."""
    return tuple(link.state for link in reversed(links))
