"""Which cells of a run are missing.  Completion is read from results, never from a flag."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout, latest_attempts


class Wanted(Record):
    """A cell to be executed, and which attempt at it this would be."""

    task: str
    seed: int
    attempt: int = 1


class Plan(Record):
    """What a run still needs."""

    cells: int
    """Cells of the run."""
    done: int
    """Cells that have their result."""
    missing: tuple[Wanted, ...]
    """In execution order: panel order within a seed, seeds one after another."""


def plan(
    tasks: Sequence[str],
    seeds: Sequence[int],
    rollouts: Iterable[Rollout],
    *,
    retries: int,
    retry_infra: bool = False,
    only: Collection[str] | None = None,
) -> Plan:
    """Compare the cells `tasks x seeds` with the rollouts there are.

    A cell is done when its newest attempt is scorable, or when its attempts are used up: 1 + `retries`.
    `retry_infra` gives every unscorable cell one attempt more.  `only` narrows to some tasks.
    """
    newest = {(rollout.task, rollout.seed): rollout for rollout in latest_attempts(rollouts)}
    missing: list[Wanted] = []
    cells = [(task, seed) for seed in seeds for task in tasks if only is None or task in only]
    for task, seed in cells:
        last = newest.get((task, seed))
        if last is None:
            missing.append(Wanted(task=task, seed=seed))
        elif not last.outcome.scorable and (retry_infra or last.attempt <= retries):
            missing.append(Wanted(task=task, seed=seed, attempt=last.attempt + 1))
    return Plan(cells=len(cells), done=len(cells) - len(missing), missing=tuple(missing))
