"""The store, as the tables read it: what several rows need is read once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.records.task import Panel
from harnesstrain.core.records.verdict import Epoch, Verdict
from harnesstrain.store.facade import Store
from harnesstrain.store.kinds import KINDS

T = TypeVar("T")
R = TypeVar("R", bound=Record)


class Reading:
    """One table's reading of the store, for all or for some."""

    def __init__(self, store: Store, only: Sequence[str] = (), rollout: str | None = None) -> None:
        """`only`: ids of the runs that are asked for; empty: all.  `rollout`: the only one whose steps are."""
        self.store = store
        self.only = frozenset(only)
        self.rollout = rollout
        self.lost: list[str] | None = None
        """What is said of traces that cannot be read, whose steps are then left out; None: the first one is raised."""

    def dated(self, kind: type[R]) -> Iterator[tuple[R, datetime]]:
        """Every record of a kind in its newest state, in order of first commit."""
        name = next(one.name for one in KINDS.values() if one.model is kind)
        newest: dict[str, tuple[dict[str, object], float]] = {}
        for entry in self.store.entries(name):
            first = newest[entry.id][1] if entry.id in newest else entry.at
            newest[entry.id] = (entry.record, first)
        for fields, at in newest.values():
            yield kind.model_validate(fields), moment(at)

    @functools.cached_property
    def runs(self) -> list[Run]:
        """The runs that are asked for, oldest first."""
        return [run for run in self.store.runs() if not self.only or run.id in self.only]

    def rollouts(self) -> Iterator[tuple[Run, list[Rollout]]]:
        """The runs that are asked for, each with every attempt."""
        for run in self.runs:
            yield run, self.store.rollouts(run.id)

    @functools.cached_property
    def epochs(self) -> list[Epoch]:
        """Every epoch, by number."""
        return self.store.epochs()

    @functools.cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Every verdict by id."""
        return {verdict.id: verdict for verdict in self.store.verdicts()}

    @functools.cached_property
    def candidates(self) -> dict[str, Candidate]:
        """Every candidate by id."""
        return {candidate.id: candidate for candidate in self.store.candidates()}

    @functools.cached_property
    def by_commit(self) -> dict[str, Candidate]:
        """The newest candidate of each commit."""
        return {candidate.commit: candidate for candidate in self.candidates.values() if candidate.commit}

    @functools.cached_property
    def epoch_of_run(self) -> dict[str, int]:
        """The first epoch that measured its candidate with a run, by run."""
        return {epoch.cand_run: epoch.number for epoch in reversed(self.epochs) if epoch.cand_run}

    @functools.cached_property
    def epoch_of_verdict(self) -> dict[str, int]:
        """The first epoch that came to a verdict, by verdict."""
        return {epoch.verdict: epoch.number for epoch in reversed(self.epochs) if epoch.verdict}

    @functools.cached_property
    def splits(self) -> Callable[[str], dict[str, str]]:
        """The split of each task of a panel, by the panel's digest."""

        @functools.cache
        def of(digest: str) -> dict[str, str]:
            panel = self.panel(digest)
            return {task.name: task.split for task in panel.tasks} if panel else {}

        return of

    def panel(self, digest: str) -> Panel | None:
        """None: not in the store."""
        return _known(self.store.panel, digest)

    def regime(self, digest: str) -> Regime | None:
        """None: not in the store."""
        return _known(self.store.regime, digest)

    def endpoint(self, fingerprint: str | None) -> Endpoint | None:
        """None: not in the store."""
        return _known(self.store.endpoint, fingerprint) if fingerprint is not None else None


def moment(at: float) -> datetime:
    """Seconds since 1970 as UTC without a zone."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def _known(get: Callable[[str], T], key: str) -> T | None:
    try:
        return get(key)
    except NotFound:
        return None
