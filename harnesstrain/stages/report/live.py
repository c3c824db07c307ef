"""What is going on now, from the store alone: who is at work, the open epoch and its stage, the cells of its run.

`Watch.look()` reads only what is new since its last look.  Whether somebody is at work is what the leases say; which
cells are under way is told beside the lease of their run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.flight import Flight, told
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.run import Regime
from harnesstrain.core.records.task import Panel
from harnesstrain.stages.report.moment import (
    BROKEN_OFF,
    NOT_NEEDED,
    RUNNING,
    WAITING,
    CellNow,
    EpochNow,
    Live,
    RunNow,
    VerdictNow,
)
from harnesstrain.stages.report.pace import Pace, eta
from harnesstrain.stages.report.plain import one_line
from harnesstrain.store.base import Entry, Holder, News

KINDS = ("run", "epoch", "candidate", "verdict", "memo", "promotion")
"""The records that a watch is told of.  Rollouts are read run by run."""
LOOP, RUN = "loop", "run "
"""Names of leases: of the training loop; of a run, before the first characters of its id."""
VERDICTS = 5
"""Newest verdicts shown."""


class Feed(Protocol):
    """What tells of news: `store.Store.feed(KINDS)` is one."""

    def look(self) -> News:
        """What is new since the last look."""

    def attempts(self, run: str, after: int, /) -> tuple[Entry, ...]:
        """Rollouts of a run after a row."""

    def spans(self, run: str, panel: str, /) -> dict[str, float]:
        """Mean recorded seconds by task, of earlier runs."""

    def certificates(self, run: str, /) -> int:
        """How many there are of a run."""


class Named(Protocol):
    """Where what a run names is found: `store.Store` is one."""

    def panel(self, digest: str, /) -> Panel:
        """Raises NotFound."""

    def regime(self, digest: str, /) -> Regime:
        """Raises NotFound."""

    def endpoint(self, fingerprint: str, /) -> Endpoint:
        """Raises NotFound."""


class _Known:
    """What was read of one run so far."""

    def __init__(self, feed: Feed, named: Named, id: str, record: Mapping[str, Any]) -> None:
        self._feed = feed
        self.id = id
        self.record = record
        self.seq = 0
        self.attempts: list[Entry] = []
        self.newest: dict[tuple[str, int], Entry] = {}
        try:
            self.tasks = tuple(task.name for task in named.panel(record["panel"]).tasks)
        except NotFound:
            self.tasks = ()
        try:
            self.model = named.endpoint(named.regime(record["regime"]).endpoint).model
        except NotFound:
            self.model = ""
        self.spans = feed.spans(id, record["panel"])

    def read(self) -> None:
        """Read what was committed to it meanwhile."""
        for entry in self._feed.attempts(self.id, self.seq):
            self.seq = entry.seq
            self.attempts.append(entry)
            self.newest[entry.record["task"], entry.record["seed"]] = entry

    @property
    def cells(self) -> list[tuple[str, int]]:
        """Every cell, in panel order, seed after seed within a task."""
        tasks = self.tasks or tuple(dict.fromkeys(task for task, _ in self.newest))
        return [(task, seed) for task in tasks for seed in self.record["seeds"]]


class Watch:
    """Looks on.  One thread uses it."""

    def __init__(self, feed: Feed, named: Named) -> None:
        self._feed = feed
        self._named = named
        self._records: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
        self._completed: dict[str, int] = {}
        self._runs: dict[str, _Known] = {}

    def look(self) -> Live:
        """Where things stand now.  Raises StoreCorrupt, or whatever keeps the store from being read."""
        news = self._feed.look()
        for entry in news.entries:
            self._records[entry.kind].pop(entry.id, None)
            self._records[entry.kind][entry.id] = entry
        self._completed |= news.completed
        epoch = self._epoch(news.holders)
        runs = tuple(self._run(id, news, epoch) for id in self._shown(news.holders, epoch))
        alive = [holder for holder in news.holders if not holder.stale]
        if alive:
            state = "measuring" if any(run.state == "measuring" for run in runs) else "working"
        elif news.holders:
            state = "stale"
        else:
            state = "idle" if self._records["run"] or self._records["epoch"] else "nothing"
        return Live(
            state=state,
            epoch=epoch,
            runs=runs,
            verdicts=tuple(self._verdicts()),
            judged=len(self._records["verdict"]),
            holders=tuple(holder.model_copy(update={"detail": ""}) for holder in news.holders),
            epochs=len(self._records["epoch"]),
            promoted=self._promoted(),
        )

    def _promoted(self) -> int:
        """Changes that were promoted, by epochs and by hand."""
        epochs = [entry.record for entry in self._records["epoch"].values()]
        own = {epoch["promotion"] for epoch in epochs}
        done = {one for one, entry in self._records["promotion"].items() if entry.record["state"] == "done"}
        return len([epoch for epoch in epochs if epoch["state"] == "promoted"]) + len(done - own)

    # --- the epoch

    def _epoch(self, holders: Sequence[Holder]) -> EpochNow | None:
        """The newest epoch, when it is open or the loop is at work on it; else None."""
        entry = max(self._records["epoch"].values(), key=lambda one: int(one.id), default=None)
        loop = next((holder for holder in holders if holder.name == LOOP), None)
        if entry is None or (entry.record["state"] != "started" and loop is None):
            return None
        row = entry.record
        candidate = self._records["candidate"].get(row["candidate"] or "")
        made = candidate or next(
            (
                one
                for one in self._records["candidate"].values()
                if (one.record["epoch"], one.record["base"]) == (row["number"], row["base"])
            ),
            None,
        )
        return EpochNow(
            number=row["number"],
            state=row["state"],
            stage=self._stage(row, made, holders),
            base=row["base"],
            base_run=row["base_run"] or self._run_of(row["base"]),
            candidate=made.id if made else None,
            commit=made.record["commit"] if made else None,
            hypothesis=one_line(made.record["hypothesis"]) if made else "",
            cand_run=row["cand_run"] or (self._run_of(made.record["commit"]) if made else None),
            verdict=row["verdict"],
            certificates=self._certified(row),
        )

    def _stage(self, row: Mapping[str, Any], made: Entry | None, holders: Sequence[Holder]) -> str:
        """What the loop is at, read from what is recorded and what is not."""
        measuring = any(holder.name.startswith(RUN) and not holder.stale for holder in holders)
        if row["state"] != "started":
            memos = self._records["memo"].values()
            return "ended" if any(one.record["epoch"] == row["number"] for one in memos) else "writing the memo"
        if row["verdict"] is not None:
            return "promoting or rejecting"
        if row["cand_run"] is not None:
            return "measuring the candidate" if measuring else "judging"
        if made is not None:
            return "measuring the candidate"
        if row["base_run"] is not None:
            return "proposing"
        done = self._run_of(row["base"])
        return "certifying the baseline" if done in self._completed and not measuring else "measuring the baseline"

    def _certified(self, row: Mapping[str, Any]) -> int:
        """Certificates of the baseline's run, while they are being made."""
        run = self._run_of(row["base"])
        return self._feed.certificates(run) if row["base_run"] is None and run in self._completed else 0

    def _run_of(self, commit: str | None) -> str | None:
        """The newest run of a version."""
        found = [entry.id for entry in self._records["run"].values() if entry.record["commit"] == commit]
        return found[-1] if found else None

    def _verdicts(self) -> list[VerdictNow]:
        """The newest verdicts, newest first."""
        epochs = {entry.record["verdict"]: entry.record["number"] for entry in self._records["epoch"].values()}
        titles = {
            entry.record["commit"]: one_line(entry.record["hypothesis"])
            for entry in self._records["candidate"].values()
            if entry.record["commit"]
        }
        newest = list(self._records["verdict"].values())[::-1][:VERDICTS]
        return [
            VerdictNow(
                id=entry.id,
                epoch=epochs.get(entry.id),
                decision=entry.record["decision"],
                gained=len(entry.record["gained"]),
                lost=len(entry.record["lost"]),
                sentence=one_line(entry.record["sentence"]),
                hypothesis=titles.get(entry.record["cand_commit"], ""),
                at=entry.at,
            )
            for entry in newest
        ]

    # --- the runs

    def _shown(self, holders: Sequence[Holder], epoch: EpochNow | None) -> list[str]:
        """The runs that somebody measures or measured last; else those of the open epoch; else the newest."""
        runs = self._records["run"]
        held = [holder.name.removeprefix(RUN) for holder in holders if holder.name.startswith(RUN)]
        found = [id for id in runs for prefix in held if id.startswith(prefix)]
        if not found and epoch is not None:
            found = [id for id in (epoch.cand_run or epoch.base_run,) if id is not None and id in runs]
        return found or list(runs)[-1:]

    def _run(self, id: str, news: News, epoch: EpochNow | None) -> RunNow:
        entry = self._records["run"][id]
        known = self._runs.get(id)
        if known is None:
            known = self._runs[id] = _Known(self._feed, self._named, id, entry.record)
        known.read()
        holder = next((one for one in news.holders if one.name.startswith(RUN) and id.startswith(one.name[4:])), None)
        alive = holder is not None and not holder.stale
        complete = self._completed.get(id) == len(known.attempts)
        state = "measuring" if alive else "stale" if holder else "complete" if complete else "incomplete"
        flights = {(one.task, one.seed): one for one in told(holder.detail)} if holder else {}
        cells = tuple(self._cell(known, cell, flights.get(cell), news.now, state) for cell in known.cells)
        role = _role(entry.record["commit"], epoch)
        return RunNow(
            run=id,
            commit=entry.record["commit"],
            role=role,
            panel=one_line(entry.record["panel_name"]),
            split=entry.record["split"],
            model=one_line(known.model),
            state=state,
            cells=cells,
            elapsed=holder.age if holder is not None and alive else None,
            eta=eta(self._pace(known, cells, holder, news.now)) if holder is not None and alive else None,
            at_most=role == "candidate" and state == "measuring",
            **_sums(known.attempts),
        )

    def _cell(self, known: _Known, cell: tuple[str, int], flight: Flight | None, now: float, state: str) -> CellNow:
        task, seed = cell
        entry = known.newest.get(cell)
        if flight is not None and (entry is None or flight.attempt > entry.record["attempt"]):
            name = RUNNING if state == "measuring" else BROKEN_OFF
            seconds = max(0.0, now - flight.since) if state == "measuring" else None
            return CellNow(task=one_line(task), seed=seed, state=name, attempt=flight.attempt, seconds=seconds)
        if entry is None:
            return CellNow(task=one_line(task), seed=seed, state=NOT_NEEDED if state == "complete" else WAITING)
        row = entry.record
        return CellNow(
            task=one_line(task),
            seed=seed,
            state=row["outcome"],
            reason=one_line(row["reason"] or ""),
            attempt=row["attempt"],
            seconds=row["recorded_time"],
            tokens=row["usage"]["prompt"] + row["usage"]["completion"],
            calls=row["llm_calls"],
            at=entry.at,
        )

    def _pace(self, known: _Known, cells: Sequence[CellNow], holder: Holder, now: float) -> Pace:
        made = {cell for cell, entry in known.newest.items() if entry.at >= holder.taken}
        return Pace(
            spans=known.spans,
            made=tuple(task for task, _ in made),
            under_way=tuple(cell.task for cell in cells if cell.state == RUNNING),
            waiting=tuple(cell.task for cell in cells if cell.state == WAITING),
            elapsed=now - holder.taken,
        )


def _role(commit: str, epoch: EpochNow | None) -> str:
    if epoch is None:
        return ""
    return {epoch.base: "baseline", epoch.commit: "candidate"}.get(commit, "")


def _sums(attempts: Sequence[Entry]) -> dict[str, int]:
    """Over every attempt of a run, retries included."""
    rows = [entry.record for entry in attempts]
    usage = [row["usage"] for row in rows]
    return {
        "prompt": sum(one["prompt"] for one in usage),
        "cached": sum(one["cached"] for one in usage),
        "completion": sum(one["completion"] for one in usage),
        "calls": sum(row["llm_calls"] for row in rows),
        "calls_cached": sum(row["llm_cached"] for row in rows),
        "actions": sum(row["actions"] for row in rows),
        "actions_cached": sum(row["actions_cached"] for row in rows),
        "from_caches": sum(bool(row["from_caches"]) for row in rows),
    }
