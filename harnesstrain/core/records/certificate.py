"""Evidence that a part of the measurement is deterministic."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from harnesstrain.core.records.base import Record


class Certified(StrEnum):
    """What re-executing a chain showed."""

    EXACT = "exact"
    """Bytes equal."""
    EQUIVALENT = "equivalent"
    """Equal after scrubbing."""
    FORKED = "forked"
    NO_CHAIN = "no_chain"
    """Nothing was executed, so nothing can be compared."""


class Regraded(StrEnum):
    """What running the verifier again showed, where every command gave the same again."""

    SAME = "same"
    OUTCOME = "outcome"
    """The same outcome with another reward."""
    OTHER = "other"
    """Another outcome: the verifier does not repeat itself."""
    NO_GRADE = "no_grade"
    """The rollout was not graded, so nothing can be compared."""
    IMPOSSIBLE = "impossible"
    """It could not be run again."""


class Certificate(Record):
    """One certificate.  An env certificate is inherited only when regime, task and chain digests all match."""

    id: str
    """env: digest(kind, regime, task, seed, chain, scrub rules); of a model: digest(kind, endpoint, gate version,
    sampling); of a harness: digest(kind, commit, task, seed, requests, chain)."""
    kind: str
    """env, model or harness."""
    run: str | None = None
    """The run whose chain was re-executed."""
    endpoint: str | None = None
    """model: fingerprint of the endpoint that was asked."""
    regime: str | None = None
    task: str | None = None
    task_digest: str | None = None
    seed: int | None = None
    chain: str | None = None
    result: Certified
    step: int | None = None
    """First re-executed step that differed."""
    command: str | None = None
    recorded: str | None = None
    """What the record says, scrubbed and bounded."""
    observed: str | None = None
    """What was seen instead, scrubbed and bounded."""
    recorded_raw: str | None = None
    """env: what the record says as it came, bounded."""
    observed_raw: str | None = None
    """env: what was seen instead as it came, bounded."""
    diff: str | None = None
    """Unified diff of the two sides: env: scrubbed outputs; harness: the first message or action that differs."""
    proposal: str | None = None
    """env: a scrub rule, ready to paste, where what differs looks volatile.  Never applied by itself."""
    proposal_reason: str | None = None
    """env: why that rule, or why none."""
    commit: str | None = None
    """harness: the version that was played back."""
    requests: str | None = None
    """harness: rolling digest over the recorded requests."""
    rules: str | None = None
    """env: version of the scrub rules that compared."""
    state: str | None = None
    """env: digest of the files that the chain left, where the sandbox can tell."""
    grading: Regraded | None = None
    """env: what grading again showed; None: it was not tried (the chain forked, or the certificate is older)."""
    grading_reason: str = ""
    """env: what the verifier gave instead, or why it could not be run."""
    gradings: int = 0
    """env: how often the verifier was run again."""
    reward: float | None = None
    """env: the recorded reward that was compared."""
    detail: dict[str, Any] = Field(default_factory=dict)
