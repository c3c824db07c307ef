"""Runs that were broken off, for `ht status`: the newest of each version, and how to go on with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harnesstrain.cli.output import counted
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context
    from harnesstrain.stages.report.history import Status

SHOWN = 3
"""Runs that are told, at most."""


class Begun(Record):
    """One run that was broken off."""

    run: str
    line: str
    command: str | None
    """What goes on with it; None: nothing that is known."""


class BrokenOff(Record):
    """The newest ones, newest first, and how many more there are."""

    runs: tuple[Begun, ...]
    more: int

    @property
    def commands(self) -> dict[str, str]:
        """What goes on with each, where that is known."""
        return {one.run: one.command for one in self.runs if one.command is not None}

    @property
    def lines(self) -> list[str]:
        """One line each, and one for the rest."""
        found = [f"partial   {one.line}" for one in self.runs]
        if self.more:
            found.append(f"partial   and {self.more} more; `ht status --json` lists them as incomplete_runs")
        return found


def broken_off(context: Context, facts: Status) -> BrokenOff:
    """Of the runs that are not complete, those in which something was measured; of each version the newest."""
    from harnesstrain.measure.resuming import resumption

    cells = {one.run: one.cells for one in context.store.summaries()}
    begun = [context.store.run(run) for run in reversed(facts.incomplete_runs) if cells.get(run)]
    newest = list({run.commit: run for run in reversed(begun)}.values())[::-1][:SHOWN]
    told = []
    for run in newest:
        command, why = resumption(context, run)
        line = f"run {short(run.id)}; `{command}` goes on with it"
        if why is not None:
            what = f"{run.commit[:8]} on {run.place}, {counted(cells[run.id], 'cell')} measured"
            line = f"run {short(run.id)} of {what}; {why}"
        told.append(Begun(run=run.id, line=line, command=command if why is None else None))
    return BrokenOff(runs=tuple(told), more=len(begun) - len(told))
