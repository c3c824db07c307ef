"""Which cells of a run are missing.  Completion is read from results, never from a flag."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Outcome, Rollout, latest_attempts
from harnesstrain.judge.early import Cell


class Wanted(Record):
    """A cell to be executed, and which attempt at it this would be."""

    task: str
    seed: int
    attempt: int = 1
    thorough: bool = False
    """An earlier attempt drifted: start from no kept state."""


class Plan(Record):
    """What a run still needs."""

    cells: int
    """Cells of the run."""
    done: int
    """Cells that have their result."""
    missing: tuple[Wanted, ...]
    """In execution order: the order asked for, else seeds one after another, within one the longest first."""


def plan(
    tasks: Sequence[str],
    seeds: Sequence[int],
    rollouts: Iterable[Rollout],
    *,
    retries: int,
    retry_infra: bool = False,
    only: Collection[str] | None = None,
    order: Sequence[Cell] = (),
    spans: Mapping[str, float] | None = None,
) -> Plan:
    """Compare the cells `tasks x seeds` with the rollouts there are.

    A cell is done when its newest attempt is scorable, or when its attempts are used up: 1 + `retries`, or a second one
    that drifted.
    `retry_infra` gives every unscorable cell one attempt more.  `only` narrows to some tasks.  `order` names cells that
    come first, in this order.  Without it `spans` counts, seconds by task: the longest first, so that none is left
    running alone at the end; a task of unknown length might be that one, and goes before all.
    """
    attempts = list(rollouts)
    newest = {(rollout.task, rollout.seed): rollout for rollout in latest_attempts(attempts)}
    drifts = Counter((rollout.task, rollout.seed) for rollout in attempts if rollout.outcome is Outcome.FORKED)
    missing: list[Wanted] = []
    cells = [(task, seed) for seed in seeds for task in tasks if only is None or task in only]
    for task, seed in cells:
        last = newest.get((task, seed))
        if last is None:
            missing.append(Wanted(task=task, seed=seed))
        elif not last.outcome.scorable:
            drifted = drifts[task, seed]
            again = drifted < 2 if last.outcome is Outcome.FORKED else last.attempt - drifted <= retries
            if retry_infra or again:
                missing.append(Wanted(task=task, seed=seed, attempt=last.attempt + 1, thorough=drifted > 0))
    if order:
        place = {(cell.task, cell.seed): index for index, cell in enumerate(order)}
        missing.sort(key=lambda wanted: place.get((wanted.task, wanted.seed), len(place)))
    elif spans:
        turn = {seed: index for index, seed in enumerate(seeds)}
        missing.sort(key=lambda wanted: (turn[wanted.seed], -spans.get(wanted.task, math.inf)))
    return Plan(cells=len(cells), done=len(cells) - len(missing), missing=tuple(missing))
