"""Exact small-sample statistics.  Standard library only; scipy is the oracle in the tests."""

from __future__ import annotations

import math

from harnesstrain.core.records.base import Record

ALPHA = 0.05
"""The level at which `detectable` asks."""


class Interval(Record):
    """A confidence interval of a share."""

    low: float
    high: float


def mcnemar(gained: int, lost: int) -> float:
    """Exact one-sided McNemar p-value: how likely so many gains are among the discordant pairs by chance.

    P(X >= gained) for X ~ Binomial(gained + lost, 1/2); 1.0 without discordant pairs.
    """
    if gained < 0 or lost < 0:
        raise ValueError("counts cannot be negative")
    total = gained + lost
    return sum(math.comb(total, k) for k in range(gained, total + 1)) / (1 << total)


def needed(lost: int, alpha: float = ALPHA) -> int:
    """Fewest gains that reach p <= alpha beside `lost` losses."""
    gained = lost
    while mcnemar(gained, lost) > alpha:
        gained += 1
    return gained


def detectable(headroom: int, alpha: float = ALPHA) -> int:
    """Fewest clean gains (no loss) that reach p <= alpha when `headroom` cells can be gained; 0 when it cannot be."""
    fewest = needed(0, alpha)
    return fewest if fewest <= headroom else 0


def fisher(solved: int, cells: int, other: int, other_cells: int) -> float:
    """Fisher's exact one-sided p-value: how likely so many of the solves fall on the first side by chance.

    P(X >= solved) for X hypergeometric: `solved + other` solves drawn over `cells + other_cells` cells.
    """
    if not (0 <= solved <= cells and 0 <= other <= other_cells):
        raise ValueError("solves must lie between 0 and cells")
    solves, total = solved + other, cells + other_cells
    ways = sum(math.comb(cells, k) * math.comb(other_cells, solves - k) for k in range(solved, min(cells, solves) + 1))
    return ways / math.comb(total, solves)


def wilson(solved: int, cells: int, z: float = 1.959963984540054) -> Interval:
    """Wilson score interval of solved/cells (95 % by default).  No cells: 0 to 1."""
    if not 0 <= solved <= cells:
        raise ValueError("solved must lie between 0 and cells")
    if cells == 0:
        return Interval(low=0.0, high=1.0)
    share, square = solved / cells, z * z
    centre = share + square / (2 * cells)
    spread = z * math.sqrt(share * (1 - share) / cells + square / (4 * cells * cells))
    scale = 1 + square / cells
    low = 0.0 if solved == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if solved == cells else min(1.0, (centre + spread) / scale)
    return Interval(low=low, high=high)
