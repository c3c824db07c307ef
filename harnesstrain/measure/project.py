"""A project opened: settings → store, harness repo, context."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.events import Bus
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.scratch import sweep_temporary
from harnesstrain.core.settings import Settings
from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.measure.context import Context
from harnesstrain.sandbox import scrub
from harnesstrain.sandbox.scrub_file import read_rules
from harnesstrain.store import Store


def open_context(
    settings: Settings,
    *,
    environ: Mapping[str, str],
    bus: Bus | None = None,
    stop: StopSignal | None = None,
    aside: Path | None = None,
) -> Context:
    """Open the project that the settings describe; its store is made when there is none.

    `aside`: for a dry run, an empty folder for the store that is not there yet; nothing in the project is changed.
    The scrub rules that the settings name are in force from then on.  Raises Prerequisite (no harness repo, a store of
    another schema), ConfigError (harness.toml, the scrub file).  Close both the context and its store.
    """
    scrub.use(read_rules(settings.sandbox.scrub) if settings.sandbox.scrub is not None else ())
    state = settings.store.path
    repo = HarnessRepo.open(settings.root, state=state)
    if aside is None:
        store = open_store(settings, create=True)
        repo.sweep()
        sweep_temporary()
    elif settings.store.url is not None or (state / "store.db").exists():
        store = open_store(settings)
    else:
        store = Store.open(aside, create=True)
    return Context(
        settings=settings,
        store=store,
        repo=repo,
        state=state,
        bus=bus or Bus(),
        stop=stop or threading.Event(),
        environ=dict(environ),
    )


def open_store(settings: Settings, *, create: bool = False) -> Store:
    """The project's store.  Without `create`, raises Prerequisite when nothing was recorded yet."""
    state = settings.store.path
    if not create and settings.store.url is None and not (state / "store.db").exists():
        msg = f"no store at {state}"
        raise Prerequisite(msg, hint="`ht init` makes a harness repo; `ht evaluate` records the first run")
    directory = state if settings.store.url is not None else None
    return Store.open(settings.store_location, directory=directory, create=create)
