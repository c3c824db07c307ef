"""How outcomes moved: baseline outcome by candidate outcome, with the tasks in each place."""

from __future__ import annotations

from collections.abc import Iterable

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.judge.comparison import Comparison, mode


class Transition(Record):
    """One place of the table."""

    base: str
    """Outcome on the baseline, e.g. `no_submit:step_limit`."""
    cand: str
    cells: tuple[str, ...]
    """`task`, or `task#seed` when the run has several seeds."""


def transitions(comparison: Comparison) -> tuple[Transition, ...]:
    """The table's places that are not empty, best outcomes first.  Compared cells only."""
    several = len(comparison.base_run.seeds) > 1
    places: dict[tuple[str, str], list[str]] = {}
    for pair in comparison.pairs:
        name = f"{pair.task}#{pair.seed}" if several else pair.task
        places.setdefault((mode(pair.base), mode(pair.cand)), []).append(name)
    ordered = sorted(places.items(), key=lambda item: (_rank(item[0][0]), _rank(item[0][1])))
    return tuple(Transition(base=base, cand=cand, cells=tuple(cells)) for (base, cand), cells in ordered)


def modes(rollouts: Iterable[Rollout]) -> dict[str, int]:
    """How many rollouts ended in each way, best outcomes first."""
    counts: dict[str, int] = {}
    for rollout in rollouts:
        counts[mode(rollout)] = counts.get(mode(rollout), 0) + 1
    return dict(sorted(counts.items(), key=lambda item: _rank(item[0])))


def _rank(word: str) -> tuple[int, str]:
    order = [outcome.value for outcome in Outcome]
    head = word.partition(":")[0]
    return (order.index(head) if head in order else len(order), word)
