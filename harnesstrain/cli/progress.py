"""Progress on stderr: a live bar on a terminal, one line an event elsewhere, a heartbeat when nothing happens."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harnesstrain.cli import output
from harnesstrain.core.errors import UsageError
from harnesstrain.core.events import Bus, Event

MODES = ("auto", "bar", "plain", "none")
HEARTBEAT = 30.0
"""Seconds without a line after which one is written."""
_BREAKS = re.compile(r"[^\S ]+")
"""White space that would begin another line, or a column of this one."""


@contextmanager
def display(bus: Bus, mode: str) -> Iterator[None]:
    """Show the events of `bus` while the block runs.  Raises UsageError for an unknown mode."""
    if mode not in MODES:
        msg = f"--progress is one of {', '.join(MODES)}, not '{mode}'"
        raise UsageError(msg, hint="--progress plain works everywhere")
    if mode == "none":
        yield
        return
    bar = mode == "bar" or (mode == "auto" and sys.stderr.isatty() and output.colour(sys.stderr))
    shown: Lines = Bar() if bar else Lines()
    stop_watching = bus.watch(shown)
    try:
        yield
    finally:
        stop_watching()
        shown.close()


class Lines:
    """One line an event, and a heartbeat."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._doing = "working"
        self._closed = threading.Event()
        threading.Thread(target=self._beat, daemon=True, name="heartbeat").start()

    def on(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        line = _BREAKS.sub(" ", line_of(event))
        if line:
            self._write(line)
            self._doing = line

    def close(self) -> None:
        """Stop the heartbeat."""
        self._closed.set()

    def _write(self, line: str) -> None:
        self._last = time.monotonic()
        output.say(line)

    def _beat(self) -> None:
        began = time.monotonic()
        while not self._closed.wait(1.0):
            if time.monotonic() - self._last >= HEARTBEAT:
                self._write(f"… {time.monotonic() - began:.0f} s, last: {self._doing}")


class Bar(Lines):
    """A rich progress bar for the running evaluation; other events scroll above it."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._progress.start()
        self._task: Any = None
        self._solved = self._tokens = self._calls = self._cached = 0

    def on(self, event: Event) -> None:
        """Move the bar or print the event above it."""
        data = event.data
        if event.kind == "run.started":
            self._solved = self._tokens = self._calls = self._cached = 0
            name = output.clean(_BREAKS.sub(" ", f"{data['commit'][:8]} on {data['panel']}"))
            self._drop()
            self._task = self._progress.add_task(name, total=data["cells"], completed=data["done"], facts="")
            return
        if event.kind == "rollout.finished" and self._task is not None:
            self._solved += bool(data["solved"])
            self._tokens += data["tokens"]
            self._calls += data["calls"]
            self._cached += data["cached"]
            facts = f"{self._solved} solved · {self._tokens / 1000:.0f}k tokens · {self._cached}/{self._calls} cached"
            self._progress.update(self._task, completed=data["done"], facts=facts)
        if event.kind == "run.finished":
            self._drop()
        super().on(event)

    def close(self) -> None:
        """Remove the bar."""
        super().close()
        self._progress.stop()

    def _write(self, line: str) -> None:
        from rich.text import Text

        self._last = time.monotonic()
        self._progress.console.print(Text(output.clean(line)))

    def _drop(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None


def line_of(event: Event) -> str:
    """The event in one line; empty when it is not worth one."""
    data = event.data
    match event.kind:
        case "run.started":
            split = data["split"] or "all"
            todo = data["cells"] - data["done"]
            most = "at most " if data["early_stop"] and todo else ""
            return f"measuring {data['commit'][:8]} on {data['panel']}/{split}: {most}{todo} of {data['cells']} to run"
        case "rollout.finished":
            what = data["outcome"] + (f" ({data['reason']})" if data["reason"] else "")
            detail = f": {data['detail']}" if data["detail"] else ""
            return f"  {data['done']}/{data['cells']} {data['task']} {what}, {data['calls']} calls{detail}"
        case "rollout.retried":
            return f"  {data['task']} {data['outcome']}, trying again: {data['detail']}"
        case "run.finished":
            rest = f" · {data['not_needed']} not needed: the verdict is decided" if data["not_needed"] else ""
            cells, cached = data["cells"] - data["not_needed"], data["from_caches"]
            if data["done"] < cells:
                rest = f" · {data['done']} of {cells} measured"
                cells = data["done"]
            served = f" · {cached} of {data['done']} served from caches" if cached else ""
            return f"  {data['solved']} of {cells} solved{rest}{served} · run {data['run'][:8]}"
        case "certified":
            return f"  {data['task']}: {data['result']}" if data["result"] == "forked" else ""
        case "epoch.started":
            return f"epoch {data['epoch']} on {data['base'][:8]}"
        case "epoch.skipped":
            return f"  no candidate: {event.message}"
        case "propose.finished" if data["status"] == "candidate":
            return f"  candidate {data['candidate'][:8]}: {event.message}"
        case "judged":
            return f"  {data['decision']}: {event.message}"
        case "promoted":
            note = f" ({event.message})" if event.message else ""
            return f"  promoted {data['commit'][:8]}{note}"
        case "model.opened":
            return event.message
        case "propose.progress" | "run.waiting" | "warning" | "model.progress" | "model.waiting":
            return f"  {event.message}"
        case "gate.note" | "gate.level":
            return f"  {event.message}"
        case _:
            return ""
