"""Proposals and the candidates captured from them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.texts import WholeText


class CandidateStatus(StrEnum):
    """What became of a proposal."""

    CANDIDATE = "candidate"
    NO_CANDIDATE = "no_candidate"
    """The estimator left no change."""
    INVALID = "invalid_candidate"
    """The change broke a rule: surface, parent, tests."""


class Proposal(Record):
    """What an estimator says about the change it left in its worktree.  Claims, not facts."""

    hypothesis: WholeText
    """One line: what changes and why it should help.  Becomes the commit message."""
    predicted: tuple[WholeText, ...] = ()
    """Tasks expected to flip."""
    usage: Usage = Field(default_factory=Usage)
    cost_usd: float | None = None
    transcript: WholeText | None = None
    """Full transcript text, if the estimator keeps one."""
    source: WholeText = ""
    """What it came from, in the estimator's own words: a patch's file name, a model, a command."""


class Candidate(Record):
    """One proposed child commit, or the reason why there is none."""

    id: str
    """digest(base, commit or reason, estimator, salt)."""
    status: CandidateStatus
    base: str
    """Parent commit."""
    commit: str | None = None
    estimator: str
    hypothesis: WholeText = ""
    predicted: tuple[WholeText, ...] = ()
    reason: WholeText = ""
    """Why there is no (valid) candidate."""
    epoch: int | None = None
    files: tuple[WholeText, ...] = ()
    """Paths the diff touches."""
    usage: Usage = Field(default_factory=Usage)
    cost_usd: float | None = None
    transcript: str | None = None
    """Digest of the kept transcript (a blob of the store)."""
    source: WholeText = ""
    """What it came from, as the estimator says: a patch's file name, a model, a command."""
