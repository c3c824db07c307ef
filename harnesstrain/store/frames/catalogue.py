"""Every table by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from harnesstrain.core.errors import UsageError
from harnesstrain.store.frames import decided, exchanges, measured
from harnesstrain.store.frames.reading import Reading
from harnesstrain.store.frames.shapes import Row, Shape


class Table(NamedTuple):
    """A table: its shape, and its rows from a reading of the store."""

    shape: Shape
    rows: Callable[[Reading], Iterator[Row]]

    @property
    def by_run(self) -> bool:
        """Whether its rows can be limited to some runs."""
        return self.shape.name in BY_RUN


BY_RUN = ("runs", "rollouts", "steps")
"""Tables whose rows can be limited to some runs."""

TABLES: dict[str, Table] = {
    table.shape.name: table
    for table in (
        Table(measured.RUNS, measured.runs),
        Table(measured.ROLLOUTS, measured.rollouts),
        Table(exchanges.STEPS, exchanges.steps),
        Table(decided.CANDIDATES, decided.candidates),
        Table(decided.VERDICTS, decided.verdicts),
        Table(decided.FLIPS, decided.flips),
        Table(decided.EXCLUDED, decided.excluded),
        Table(decided.EPOCHS, decided.epochs),
        Table(decided.PROMOTIONS, decided.promotions),
        Table(decided.MEMOS, decided.memos),
        Table(measured.CERTIFICATES, measured.certificates),
        Table(measured.PANELS, measured.panels),
        Table(measured.CACHES, measured.caches),
    )
}
"""In the order of the documentation."""


def table(name: str) -> Table:
    """The table of a name, `rollout` as well as `rollouts`.  Raises UsageError."""
    for found in (name, f"{name}s"):
        if found in TABLES:
            return TABLES[found]
    raise UsageError(f"no table '{name}'", hint=f"known: {', '.join(TABLES)}")
