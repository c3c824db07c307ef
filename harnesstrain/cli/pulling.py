"""Progress of a download: a bar on a terminal, a line every ten percent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harnesstrain.cli import output
from harnesstrain.cli.progress import MODES
from harnesstrain.core.errors import UsageError

if TYPE_CHECKING:
    from harnesstrain.llm.models.pull import Progress


@contextmanager
def shown(mode: str) -> Iterator[Callable[[Progress], None]]:
    """An observer for `pull`.  Raises UsageError for an unknown mode."""
    if mode not in MODES:
        msg = f"--progress is one of {', '.join(MODES)}, not '{mode}'"
        raise UsageError(msg, hint="--progress plain works everywhere")
    if mode == "none":
        yield lambda step: None
        return
    if mode == "plain" or not (sys.stderr.isatty() and output.colour(sys.stderr)):
        yield Steps().on
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None)

    def on(step: Progress) -> None:
        if step.message:
            bar.console.print(output.clean(step.message), markup=False, highlight=False)
        bar.update(task, description=f"{step.model} {step.step}", total=step.total, completed=step.done)

    with bar:
        yield on


class Steps:
    """A line for each message, and one for each tenth of the bytes."""

    def __init__(self) -> None:
        self._last = (-1, "")

    def on(self, step: Progress) -> None:
        """Say what is worth saying."""
        if step.message:
            output.say(step.message)
        tenth = (10 * step.done // step.total if step.total else 0, step.step)
        if step.done and tenth != self._last:
            self._last = tenth
            output.say(f"{step.model} {step.step} {10 * tenth[0]} %")
