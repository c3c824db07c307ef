"""Rollouts, their steps and their traces."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import Field

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import Owner
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Usage


class Outcome(StrEnum):
    """How a rollout ended.  Every rollout ends in exactly one."""

    SOLVED = "solved"
    FAILED_VERIFICATION = "failed_verification"
    NO_SUBMIT = "no_submit"
    POLICY_CRASH = "policy_crash"
    INFRA_LLM = "infra_llm"
    INFRA_SANDBOX = "infra_sandbox"
    INFRA_VERIFIER = "infra_verifier"
    FORKED = "forked"

    @property
    def scorable(self) -> bool:
        """Whether it is a measurement of the harness (as opposed to of the infrastructure)."""
        return self in (self.SOLVED, self.FAILED_VERIFICATION, self.NO_SUBMIT, self.POLICY_CRASH)

    @property
    def owner(self) -> Owner | None:
        """Whose failure it is; None for a solve."""
        if self is Outcome.SOLVED:
            return None
        return Owner.POLICY if self.scorable else Owner.INFRA


class Reason(StrEnum):
    """Why a rollout was not submitted."""

    STEP_LIMIT = "step_limit"
    TIME_LIMIT = "time_limit"
    TOKEN_LIMIT = "token_limit"
    CONTEXT_OVERFLOW = "context_overflow"
    GAVE_UP = "gave_up"


class StepKind(StrEnum):
    """What a step exchanged."""

    LLM = "llm"
    RUN = "run"
    READ = "read"
    WRITE = "write"
    NOTE = "note"
    SUBMIT = "submit"
    STAGE = "stage"
    """The driver's own: the environment is made ready for one of several steps of a task."""
    VERIFY = "verify"
    """The driver's own: a step of a task is graded before the next one begins."""


class Source(StrEnum):
    """Where a step's answer came from."""

    LIVE = "live"
    """Asked or executed now; an action in an environment in which every action before it was executed."""
    CACHE = "cache"
    """From a record of the same input."""
    SNAPSHOT = "snapshot"
    """Executed now, in an environment that was started from a kept state."""


class Step(Record):
    """One exchange.  Fields that do not apply to a kind are None or empty."""

    index: int
    """From 0, in order of arrival."""
    kind: StepKind
    source: Source = Source.LIVE
    duration: float = 0.0
    """Recorded seconds."""
    request_digest: str | None = None
    """llm: digest of the exact request; actions: chain digest after this action."""
    messages: tuple[str, ...] = ()
    """llm: digests of the messages, in order; texts are in the trace's `messages`."""
    tools: str | None = None
    """llm: digest of the tool schemas; text is in the trace's `messages`."""
    content: str | None = None
    reasoning: str | None = None
    tool_calls: str | None = None
    """llm: JSON list of {id, name, arguments}."""
    finish_reason: str | None = None
    usage: Usage | None = None
    action: str | None = None
    """Actions: canonical JSON of the action."""
    exit_code: int | None = None
    stdout: bytes | None = None
    stderr: bytes | None = None
    scrubbed_digest: str | None = None
    """Actions: digest of the scrubbed result, for comparison."""
    raw_digest: str | None = None
    timed_out: bool = False
    truncated: bool = False
    live_only: bool = False
    """Left processes behind or timed out: re-executed on every replay."""
    note: str | None = None
    """note: JSON as the harness gave it."""
    error: str | None = None
    """The typed error the harness was answered with."""
    ran: tuple[str, ...] = ()
    """Changed code that ran since the step before it was sent: `file:line`, or a changed file that was read."""
    ran_after: tuple[str, ...] = ()
    """The same, of the time after the last step: what ran before the harness ended without another request."""


class Drift(Record):
    """An action that was executed again and gave something else than its record: the evidence of `forked`."""

    step: int
    """Index of the step in its episode."""
    command: str
    recorded: str
    """What the record says, scrubbed, bounded."""
    observed: str
    """What came this time, scrubbed, bounded."""


class Rollout(Record):
    """One attempt: one harness version on one task with one seed, driven to an outcome."""

    id: str
    """digest(run, task, seed, attempt)."""
    run: str
    task: str
    task_digest: str
    seed: int
    outcome: Outcome
    reason: str | None = None
    """For no_submit: a Reason.  For others: one short word, if any."""
    detail: str = ""
    """One sentence of evidence for people."""
    reward: float | None = None
    rewards: dict[str, float] = Field(default_factory=dict)
    llm_calls: int = 0
    llm_cached: int = 0
    """Of `llm_calls`, those served from the cache."""
    actions: int = 0
    actions_cached: int = 0
    """Of `actions`, those served from the cache."""
    executions: int = 0
    """Actions executed in an environment, those included that only brought it to a state."""
    grade_cached: bool = False
    """The grade was served from the cache."""
    from_caches: bool = False
    """Every reply, every action and the grade came from a cache: nothing ran but the harness."""
    drift: Drift | None = None
    """For `forked`: what differed."""
    first_try_valid: int = 0
    """LLM replies acted on without a repair, as the harness noted it (`note {"valid": true}`)."""
    first_try_total: int = 0
    usage: Usage = Field(default_factory=Usage)
    recorded_time: float = 0.0
    """Seconds charged against the time budget."""
    chain_digest: str | None = None
    """Rolling digest over the environment actions."""
    requests_digest: str | None = None
    """Rolling digest over the model requests."""
    attempt: int = 1
    """1, or 2… after infrastructure retries."""
    isolated: bool = True
    """False when the sandbox or the jail could not isolate."""
    traced: str | None = None
    """The commit whose difference to the harness version was traced while it ran; None: nothing was traced."""
    trace: str | None = None
    """Digest of its trace's content, filled in by the store: the same in a file of its own and in its run's."""

    @property
    def solved(self) -> bool:
        """Whether it counts as a solve."""
        return self.outcome is Outcome.SOLVED

    @property
    def graded(self) -> bool:
        """Whether a verifier was run for it."""
        judged = self.outcome in (Outcome.SOLVED, Outcome.FAILED_VERIFICATION)
        return judged or self.reward is not None or bool(self.rewards)

    @property
    def measurement(self) -> str:
        """Digest of what was measured: equal for equal behaviour, whatever the clock or the caches did."""
        return digest(
            {
                "task": self.task_digest,
                "seed": self.seed,
                "outcome": self.outcome,
                "reason": self.reason,
                "reward": self.reward,
                "rewards": self.rewards,
                "calls": self.llm_calls,
                "actions": self.actions,
                "completion": self.usage.completion,
                "chain": self.chain_digest,
                "requests": self.requests_digest,
            }
        )


class Trace(Record):
    """Everything a rollout exchanged."""

    rollout: str
    steps: tuple[Step, ...]
    messages: dict[str, dict[str, Any] | list[Any]]
    """Each distinct message (or tool-schema list) once, by digest."""
    log: str = ""
    """The harness's stderr, bounded."""


def latest_attempts(rollouts: Iterable[Rollout]) -> list[Rollout]:
    """One rollout per (task, seed): the newest attempt.  Keeps the order in which cells first appear."""
    newest: dict[tuple[str, int], Rollout] = {}
    for rollout in rollouts:
        cell = (rollout.task, rollout.seed)
        if cell not in newest or rollout.attempt >= newest[cell].attempt:
            newest[cell] = rollout
    return list(newest.values())
