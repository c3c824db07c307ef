"""The records part of the store: put one, get one, list a kind, find an id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.records.task import Panel, Task
from harnesstrain.core.records.verdict import Epoch, Memo, Promotion, Verdict
from harnesstrain.store import kinds, lookup, records
from harnesstrain.store.base import Entry, Found
from harnesstrain.store.engine import Database
from harnesstrain.store.known import Known

LISTED = (kinds.RUN, kinds.CANDIDATE, kinds.VERDICT, kinds.PROMOTION, kinds.EPOCH, kinds.CERTIFICATE)
"""Kinds that are asked for as a whole, again and again while a loop runs."""


class Shelf:
    """Records by kind.  A put returns False when the store already says the same; a getter raises NotFound.

    Any put raises StoreCorrupt when another record claims the same id, and Prerequisite on a full disk.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = {kind.name: Known(database, kind) for kind in LISTED}

    def put_endpoint(self, record: Endpoint) -> bool:
        """Record a model endpoint under its fingerprint."""
        return records.put(self._database, kinds.ENDPOINT, record)

    def put_regime(self, record: Regime) -> bool:
        """Record a regime under its digest."""
        return records.put(self._database, kinds.REGIME, record)

    def put_task(self, record: Task) -> bool:
        """Record what a task says, under its digest.  Its host paths are not kept."""
        return records.put(self._database, kinds.TASK, record)

    def put_panel(self, record: Panel) -> bool:
        """Record a panel under its digest."""
        return records.put(self._database, kinds.PANEL, record)

    def put_run(self, record: Run) -> bool:
        """Record a run, before its first rollout."""
        return records.put(self._database, kinds.RUN, record)

    def put_candidate(self, record: Candidate) -> bool:
        """Record a candidate."""
        return records.put(self._database, kinds.CANDIDATE, record)

    def put_verdict(self, record: Verdict) -> bool:
        """Record a verdict."""
        return records.put(self._database, kinds.VERDICT, record)

    def put_promotion(self, record: Promotion) -> bool:
        """Record one state of a promotion: `intended`, then `done` or `refused`."""
        return records.put(self._database, kinds.PROMOTION, record)

    def put_memo(self, record: Memo) -> bool:
        """Record a memo; it becomes the latest."""
        return records.put(self._database, kinds.MEMO, record)

    def put_epoch(self, record: Epoch) -> bool:
        """Record how far an epoch came; the newest row of a number counts."""
        return records.put(self._database, kinds.EPOCH, record)

    def put_certificate(self, record: Certificate) -> bool:
        """Record a certificate; certifying again may correct it."""
        return records.put(self._database, kinds.CERTIFICATE, record)

    def endpoint(self, fingerprint: str) -> Endpoint:
        """The endpoint of a fingerprint."""
        return cast(Endpoint, records.get(self._database, kinds.ENDPOINT, fingerprint))

    def regime(self, digest: str) -> Regime:
        """The regime of a digest."""
        return cast(Regime, records.get(self._database, kinds.REGIME, digest))

    def panel(self, digest: str) -> Panel:
        """The panel of a digest."""
        return cast(Panel, records.get(self._database, kinds.PANEL, digest))

    def run(self, id: str) -> Run:
        """The run of an id."""
        return cast(Run, records.get(self._database, kinds.RUN, id))

    def runs(self) -> list[Run]:
        """Every run, oldest first."""
        return cast(list[Run], self._known[kinds.RUN.name].records())

    def candidate(self, id: str) -> Candidate:
        """The candidate of an id."""
        return cast(Candidate, records.get(self._database, kinds.CANDIDATE, id))

    def candidates(self) -> list[Candidate]:
        """Every candidate, oldest first."""
        return cast(list[Candidate], self._known[kinds.CANDIDATE.name].records())

    def verdict(self, id: str) -> Verdict:
        """The verdict of an id."""
        return cast(Verdict, records.get(self._database, kinds.VERDICT, id))

    def verdicts(self) -> list[Verdict]:
        """Every verdict, oldest first."""
        return cast(list[Verdict], self._known[kinds.VERDICT.name].records())

    def promotions(self) -> list[Promotion]:
        """Every promotion in its newest state, oldest first."""
        return cast(list[Promotion], self._known[kinds.PROMOTION.name].records())

    def memo(self) -> Memo | None:
        """The latest memo, or None."""
        return cast(Memo | None, records.newest(self._database, kinds.MEMO))

    def epoch(self, number: int) -> Epoch:
        """The newest row of an epoch."""
        found = records.find(self._database, kinds.EPOCH, str(number))
        if found is None:
            raise NotFound(f"no epoch {number}", hint="`ht log` lists the epochs")
        return cast(Epoch, found)

    def epochs(self) -> list[Epoch]:
        """Every epoch in its newest state, by number."""
        found = cast(list[Epoch], self._known[kinds.EPOCH.name].records())
        return sorted(found, key=lambda epoch: epoch.number)

    def certificates(
        self,
        run: str | None = None,
        task: str | None = None,
        *,
        kind: str | None = None,
        regime: str | None = None,
        chain: str | None = None,
    ) -> list[Certificate]:
        """Certificates in their newest state, oldest first; every argument given narrows the list."""
        asked = {"run": run, "task": task, "kind": kind, "regime": regime, "chain": chain}
        equal = {column: value for column, value in asked.items() if value is not None}
        if equal.keys() <= {"kind"}:  # which an id determines, so the newest row of an id says it too
            known = cast(list[Certificate], self._known[kinds.CERTIFICATE.name].records())
            return [one for one in known if kind in (None, one.kind)]
        return cast(list[Certificate], records.listed(self._database, kinds.CERTIFICATE, equal))

    def get(self, kind: str, id: str) -> dict[str, Any]:
        """Any record as plain fields, for `ht show`.  `kind` as `resolve` names it."""
        return records.fields(self._database, self._kind(kind), id)

    def export(self, kind: str) -> Iterator[dict[str, Any]]:
        """Every row of a kind in order of commit, corrections included: {kind, id, seq, at, record}."""
        return (entry.model_dump() for entry in self.entries(kind))

    def entries(self, kind: str) -> Iterator[Entry]:
        """`export` as named results.  Reads page by page; memory does not grow with the store."""
        return records.entries(self._database, self._kind(kind))

    def resolve(self, prefix: str, kinds: Iterable[str] | None = None) -> Found:
        """The record whose id starts with `prefix`.  Raises UsageError, NotFound or Ambiguous."""
        return lookup.resolve(self._database, prefix, kinds)

    def rollout(self, id: str) -> Rollout:
        """The rollout of an id."""
        return cast(Rollout, records.get(self._database, kinds.ROLLOUT, id))

    def _kind(self, name: str) -> kinds.Kind:
        if name not in kinds.KINDS:
            raise UsageError(f"no kind '{name}' in the store", hint=f"known: {', '.join(kinds.KINDS)}")
        return kinds.KINDS[name]
