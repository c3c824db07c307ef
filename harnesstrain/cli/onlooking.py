"""Looks at a store again and again while somebody else writes it, for `ht watch`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from harnesstrain.cli import output, paging
from harnesstrain.cli.screen import Screen, Waiter
from harnesstrain.cli.styled import cut
from harnesstrain.cli.watching import changes, frame, key
from harnesstrain.core.errors import Incomplete
from harnesstrain.stages.report.live import KINDS, Watch
from harnesstrain.stages.report.moment import Live

if TYPE_CHECKING:
    from harnesstrain.core.settings import Settings
    from harnesstrain.store import Store

SETTLE = 3.0
"""Seconds for which nobody must be at work before a watch ends by itself: a command that just started has no lease yet,
and between two commands of a script nobody has one."""
WHOLE = 10_000
"""Columns where there is no terminal."""
NOTHING = Live(state="nothing", epoch=None, runs=(), verdicts=(), judged=0, holders=(), epochs=0, promoted=0)
"""A project that has recorded nothing yet."""


class Source:
    """The store that is looked at: opened when it is there, and opened anew where a copy is read."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: Store | None = None
        self._watch: Watch | None = None

    def look(self) -> Live:
        """The moment now.  Raises Prerequisite (no project here, another schema), StoreCorrupt."""
        from harnesstrain.measure.project import open_store

        if self._store is not None and self._store.copied:
            self.close()
        if self._store is None:
            file = self._settings.store.path / "store.db"
            if self._settings.store.url is None and self._settings.file is not None and not file.exists():
                return NOTHING
            self._store = open_store(self._settings)
            self._watch = Watch(self._store.feed(KINDS), self._store)
        assert self._watch is not None
        return self._watch.look()

    def close(self) -> None:
        """Let go of the store."""
        if self._store is not None:
            self._store.close()
        self._store = self._watch = None


def onlook(settings: Settings, *, interval: float, once: bool, until_done: bool, screen: bool, as_json: bool) -> int:
    """Show moment after moment; the exit code.  Raises Incomplete: it ended by itself, and something is unfinished."""
    source = Source(settings)
    try:
        if once:
            _show_once(source.look(), as_json=as_json)
            return 0
        waiter = Waiter(keys=screen)
        with ExitStack() as opened:
            opened.enter_context(waiter.listening())
            show: Callable[[Live], None] = Objects().show if as_json else Lines().show
            if screen:
                waiter.screen = drawn = opened.enter_context(Screen())
                show = lambda live: drawn.draw(frame(live, width=drawn.width, height=drawn.height))  # noqa: E731
            last = _follow(source, waiter, show, interval=interval, until_done=until_done)
        if screen and last is not None:
            _leave_behind(last, get_terminal_size().columns)
        if waiter.code is None and last is not None and last.unfinished:
            raise Incomplete("nobody is at work, and something is unfinished", hint="`ht status` says how to go on")
        return waiter.code or 0
    finally:
        source.close()


def _follow(
    source: Source, waiter: Waiter, show: Callable[[Live], None], *, interval: float, until_done: bool
) -> Live | None:
    """Look and show until told to leave, or until nobody was at work for a while."""
    quiet_since: float | None = None
    live: Live | None = None
    while waiter.code is None:
        live = source.look()
        show(live)
        quiet_since = None if live.at_work else quiet_since or time.monotonic()
        if until_done and quiet_since is not None and time.monotonic() - quiet_since >= SETTLE:
            break
        waiter.wait(min(interval, SETTLE / 3) if until_done and quiet_since is not None else interval)
    return live


class Lines:
    """One line per change."""

    def __init__(self) -> None:
        self._before: Live | None = None

    def show(self, live: Live) -> None:
        """Write what is new."""
        for text in changes(self._before, live):
            output.data(text)
        self._before = live


class Objects:
    """One --json object per change."""

    def __init__(self) -> None:
        self._before: tuple[object, ...] = ()

    def show(self, live: Live) -> None:
        """Write the moment, unless nothing but time went by."""
        if self._before != (now := key(live)):
            output.emit("watch", live, now=True)
        self._before = now


def _show_once(live: Live, *, as_json: bool) -> None:
    if as_json:
        output.emit("watch", live)
        return
    width = paging.terminal_width()
    lines = frame(live, width=width or WHOLE)
    paging.show([cut(one, width) if width is not None else one for one in lines], pager=False)


def _leave_behind(live: Live, width: int) -> None:
    """What stays in the terminal: the moment without its cells."""
    paging.show([cut(one, width) for one in frame(live, width=width, cells=False)], pager=False)
