"""How long a run still takes, about: cells weigh what the same tasks took in earlier runs, and the clock says the rest.

Recorded time is no clock: a cell served from caches costs its recorded seconds and takes none.  So the weights come
from the records and the pace from the run itself; before its first result there is only the records' word.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from harnesstrain.core.records.base import Record

HALF = 0.5
"""Share of a cell under way that counts as done: on average it is half-way."""


class Eta(Record):
    """About how long a run still takes."""

    seconds: float
    basis: str
    """pace: from this run, weighed by earlier ones where there are any.  earlier runs: from recorded seconds alone."""


class Pace(Record):
    """What is known of a run's pace."""

    spans: Mapping[str, float]
    """Mean recorded seconds of earlier runs, by task."""
    made: tuple[str, ...]
    """Tasks of the cells measured since the process began."""
    under_way: tuple[str, ...]
    waiting: tuple[str, ...]
    elapsed: float
    """Seconds since the process began."""


def eta(pace: Pace) -> Eta | None:
    """About how long; None when nothing is known yet.  A run without a cell left takes 0 s."""
    mean = statistics.fmean(pace.spans.values()) if pace.spans else 0.0
    weights = pace.spans if mean else {}
    made, under_way, waiting = (
        sum(weights.get(task, mean or 1.0) for task in tasks) for tasks in (pace.made, pace.under_way, pace.waiting)
    )
    left = waiting + (1 - HALF) * under_way
    if not pace.waiting and not pace.under_way:
        return Eta(seconds=0.0, basis="pace")
    if pace.made:
        return Eta(seconds=pace.elapsed * left / (made + HALF * under_way), basis="pace")
    if mean:
        jobs = max(1, len(pace.under_way))
        return Eta(seconds=max(left / jobs, 0.0), basis="earlier runs")
    return None
