"""A project opened for one command: settings with the command's flags, store, repo, progress, signals."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harnesstrain.cli import exits
from harnesstrain.core.errors import StoreCorrupt, UsageError
from harnesstrain.core.events import Bus
from harnesstrain.core.settings import Settings, load

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context
    from harnesstrain.store import Store


def user_file() -> Path:
    """The user's own settings file."""
    from platformdirs import user_config_path

    return user_config_path("harnesstrain") / "ht.toml"


def settings_for(
    *,
    config: Path | None = None,
    given: list[str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings that hold here.  `given`: KEY=VALUE from --set.  Raises ConfigError, UsageError."""
    merged: dict[str, Any] = {key: value for key, value in (flags or {}).items() if value is not None}
    for pair in given or []:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            msg = f"--set takes KEY=VALUE, not '{pair}'"
            raise UsageError(msg, hint="`ht config` lists every key")
        merged[key.strip()] = value
    return load(Path.cwd(), os.environ, merged, user_file(), file=config)


@contextmanager
def opened(
    *,
    config: Path | None = None,
    given: list[str] | None = None,
    flags: Mapping[str, Any] | None = None,
    progress: str = "none",
    drains: bool = False,
    dry_run: bool = False,
) -> Iterator[Context]:
    """The project here, with a progress display on stderr.

    `drains`: the command stops between units of work.  `dry_run`: nothing is made or removed in the project.
    """
    from harnesstrain.cli.progress import display
    from harnesstrain.measure.project import open_context

    settings = settings_for(config=config, given=given, flags=flags)
    bus = Bus()
    exits.STOP.drains = drains
    with ExitStack() as closing:
        aside = Path(closing.enter_context(TemporaryDirectory(prefix="ht-dry-"))) if dry_run else None
        context = open_context(settings, environ=os.environ, bus=bus, stop=exits.STOP, aside=aside)
        closing.callback(context.store.close)
        closing.enter_context(context)
        closing.enter_context(display(bus, progress))
        with _explained(context.store, settings.root):
            yield context


@contextmanager
def _explained(store: Store, root: Path) -> Iterator[None]:
    """Errors that name the run of a lost trace say what there is instead."""
    try:
        yield
    except StoreCorrupt as error:
        from harnesstrain.cli.lost import explain

        explain(store, root, error)
        raise


@contextmanager
def store_only(*, config: Path | None = None) -> Iterator[Store]:
    """The project's store alone: for commands that only read records."""
    from harnesstrain.measure.project import open_store

    settings = settings_for(config=config)
    store = open_store(settings)
    try:
        with _explained(store, settings.root):
            yield store
    finally:
        store.close()
