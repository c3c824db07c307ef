"""The protocol of an estimator (the registry group `estimators`) and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Proposal
from harnesstrain.core.records.harness import Manifest
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.core.texts import WholeText
from harnesstrain.llm.base import Model


class Tried(Record):
    """One line of the ledger: something that was tried, and what came of it."""

    epoch: int | None
    candidate: str
    """Candidate id."""
    hypothesis: str
    source: str
    base: str
    """Commit it was tried on."""
    result: str
    """promoted, rejected, unmeasurable, no_candidate, invalid_candidate, or not judged."""
    reason: str
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    """What explains each flip."""


class Evidence(Record):
    """What an estimator may see.  Train tasks only; never verifiers, their output, holdout or sealed tasks, secrets."""

    directory: Path
    """Files: memo.md, ledger.md, tried/*.patch (the newest candidates), summary.md and tasks/*.md (the last baseline
    run), candidate.md (the last candidate's run, if any), program.md (the user's policy, if any)."""
    base: str
    """Baseline commit."""
    epoch: int | None
    memo: str
    """The newest memo; empty at first."""
    ledger: tuple[Tried, ...]
    """Oldest first."""
    summary: str
    """Text of summary.md: outcome counts and one line per task."""


class Diagnosis(Record):
    """A memo, as an estimator wrote it."""

    memo: WholeText
    usage: Usage = Usage()
    transcript: WholeText | None = None
    """Full transcript text, if the estimator keeps one."""


@dataclass(frozen=True)
class Workshop:
    """Where and with what an estimator works."""

    worktree: Path
    """The visible files of the baseline, writable.  The whole delta becomes the candidate."""
    scratch: Path
    """A private directory for whatever else it writes; removed afterwards."""
    manifest: Manifest
    options: Mapping[str, Any]
    """The [estimator.NAME] table of ht.toml; the estimator validates it."""
    resolve: Callable[[str], Path]
    """Turns a path from the options into an absolute one (relative to the project's root)."""
    environ: Mapping[str, str]
    """The caller's environment.  Only what an allow-list names may be passed on."""
    model: Callable[[], Model]
    """The frozen model of the run, opened on first use."""
    stop: StopSignal
    isolated: bool
    """Whether programs it starts must be jailed."""
    say: Callable[[str], None]
    """Tell the user one line of progress."""


class Estimator(Protocol):
    """Proposes one change to a harness, and keeps the memo.  Constructed without arguments."""

    name: str

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        """Leave one change in `workshop.worktree` and say what it is; None when it has nothing to propose.

        Raises ProposalFailure (crashed, limits), ConfigError (its options are wrong).
        """

    def diagnose(self, workshop: Workshop, evidence: Evidence, verdict: Verdict | None, outcome: str) -> Diagnosis:
        """The memo after an epoch.  `verdict` is None when there was none; `outcome` says in a sentence what happened.

        Raises ProposalFailure; the caller then writes a memo made of facts alone.
        """
