"""What a report reads: the part of the store that has no side effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.rollout import Rollout, Trace
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.records.task import Panel
from harnesstrain.core.records.verdict import Epoch, Memo, Promotion, Verdict
from harnesstrain.store.base import CacheStats, RunSummary


class Records(Protocol):
    """Reads of the store.  `store.Store` is one.  Lists are in order of first commit, newest row of each id."""

    def run(self, id: str, /) -> Run:
        """Raises NotFound."""

    def runs(self) -> Iterable[Run]:
        """Every run."""

    def rollouts(self, run_id: str, /) -> Iterable[Rollout]:
        """Every attempt of a run."""

    def trace(self, rollout_id: str, /) -> Trace:
        """What a rollout exchanged.  Raises NotFound (none recorded) or StoreCorrupt (lost or damaged)."""

    def is_complete(self, run_id: str, /) -> bool:
        """Whether no cell is missing."""

    def cache_stats(self) -> Iterable[CacheStats]:
        """What the caches hold and how they did."""

    def summaries(self) -> Iterable[RunSummary]:
        """Every run in numbers."""

    def regime(self, digest: str, /) -> Regime:
        """Raises NotFound."""

    def endpoint(self, fingerprint: str, /) -> Endpoint:
        """Raises NotFound."""

    def panel(self, digest: str, /) -> Panel:
        """Raises NotFound."""

    def certificates(self) -> Iterable[Certificate]:
        """Every certificate."""

    def candidates(self) -> Iterable[Candidate]:
        """Every candidate, failed proposals included."""

    def verdict(self, id: str, /) -> Verdict:
        """Raises NotFound."""

    def verdicts(self) -> Iterable[Verdict]:
        """Every verdict."""

    def promotions(self) -> Iterable[Promotion]:
        """Every promotion."""

    def epochs(self) -> Iterable[Epoch]:
        """Every epoch."""

    def memo(self) -> Memo | None:
        """The newest one."""
