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


class Certificate(Record):
    """One certificate.  An env certificate is inherited only when regime, task and chain digests all match."""

    id: str
    """digest(subject, kind, regime, task, chain); of a model: digest(kind, endpoint, gate version, sampling)."""
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
    detail: dict[str, Any] = Field(default_factory=dict)
