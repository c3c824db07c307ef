"""One process measures a run; others wait for it, and find its rollouts there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from harnesstrain.core.errors import Busy, Incomplete
from harnesstrain.measure.context import Context
from harnesstrain.stages.evaluate.telling import telling

LOOK = 0.2
"""Seconds between looks at whether the other process is done."""


@contextmanager
def alone(context: Context, run: str) -> Iterator[None]:
    """Hold the lease of a run for the block, and say beside it what is under way.

    Raises Incomplete when stopped while another process holds it.
    """
    told = False
    with ExitStack() as held:
        while True:
            try:
                lease = held.enter_context(context.store.lease(f"run {run[:16]}"))
                break
            except Busy as busy:
                if not told:
                    context.bus.emit("run.waiting", f"another process measures run {run[:8]}: {busy.message}", run=run)
                    told = True
                if context.stop.is_set():
                    msg = f"stopped while another process measures run {run[:8]}"
                    raise Incomplete(msg, hint="the same command resumes", run=run) from busy
                time.sleep(LOOK)
        held.enter_context(telling(context.bus, lease.tell, run))
        yield
