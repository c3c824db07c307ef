"""What came from caches, and what was not the harness's doing: retries, infrastructure failures, drift."""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.stages.report.source import Records


class Served(Record):
    """How much of one run came from caches."""

    side: str
    """baseline or candidate."""
    run: str
    calls: int
    calls_cached: int
    actions: int
    actions_cached: int
    executions: int
    """Actions executed in an environment, those included that only brought it to a state."""
    rollouts: int
    grades_cached: int
    from_caches: int
    """Rollouts in which nothing ran but the harness."""
    retries: int
    """Attempts beyond the first of each cell."""
    failures: dict[str, int]
    """Attempts that the infrastructure failed, by outcome."""
    forked: int
    """Rollouts in which a repeated action gave something else."""


class Drifted(Record):
    """An action that gave something else when it was executed again."""

    side: str
    task: str
    seed: int
    step: int
    command: str
    recorded: str
    observed: str


class Cached(Record):
    """One cache of the store, over its whole life."""

    name: str
    entries: int
    bytes: int
    hits: int
    misses: int

    @property
    def rate(self) -> float | None:
        """Hits out of look-ups."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None


class Noise(Record):
    """Everything that is not the change's doing."""

    served: tuple[Served, ...] = ()
    drifts: tuple[Drifted, ...] = ()
    caches: tuple[Cached, ...] = ()


def noise(records: Records, sides: Sequence[tuple[str, Sequence[Rollout]]]) -> Noise:
    """`sides`: baseline and candidate by name, each with every attempt of its run."""
    return Noise(
        served=tuple(_served(side, rollouts) for side, rollouts in sides if rollouts),
        drifts=tuple(
            Drifted(
                side=side,
                task=one.task,
                seed=one.seed,
                step=one.drift.step,
                command=one.drift.command,
                recorded=one.drift.recorded,
                observed=one.drift.observed,
            )
            for side, rollouts in sides
            for one in rollouts
            if one.drift is not None
        ),
        caches=tuple(
            Cached(name=one.name, entries=one.entries, bytes=one.bytes, hits=one.hits, misses=one.misses)
            for one in records.cache_stats()
        ),
    )


def _served(side: str, rollouts: Sequence[Rollout]) -> Served:
    newest = latest_attempts(rollouts)
    failures: dict[str, int] = {}
    for one in rollouts:
        if not one.outcome.scorable:
            failures[one.outcome.value] = failures.get(one.outcome.value, 0) + 1
    return Served(
        side=side,
        run=rollouts[0].run,
        calls=sum(one.llm_calls for one in newest),
        calls_cached=sum(one.llm_cached for one in newest),
        actions=sum(one.actions for one in newest),
        actions_cached=sum(one.actions_cached for one in newest),
        executions=sum(one.executions for one in newest),
        rollouts=len(newest),
        grades_cached=sum(one.grade_cached for one in newest),
        from_caches=sum(one.from_caches for one in newest),
        retries=len(rollouts) - len(newest),
        failures=dict(sorted(failures.items())),
        forked=sum(one.drift is not None for one in rollouts),
    )
