"""Plugin points are plain entry points, loaded when asked for.  Built-ins register the same way, in `pyproject.toml`.

A name may also be `module:Class`, so a script can use its own class without packaging it.
"""

from __future__ import annotations

import functools
import importlib
import sys
from difflib import get_close_matches
from importlib.metadata import EntryPoints, entry_points
from typing import Any

from harnesstrain.core.errors import ConfigError, NotFound, Prerequisite

GROUPS = ("engines", "sandboxes", "tasksets", "estimators", "criteria", "optimizers", "executors", "observers")
"""Plugin groups, each `harnesstrain.<group>` among the entry points."""


def names(group: str) -> list[str]:
    """The names registered in `group`, sorted."""
    return sorted({point.name for point in _points(group)})


def load(group: str, name: str) -> Any:
    """The object registered as `name` in `group`, or the one at `module:Attribute`.

    Raises NotFound (no such name), ConfigError (module:Class cannot be found), Prerequisite (an extra is missing).
    """
    if ":" in name:
        module, _, attribute = name.partition(":")
        hint = "give an importable module:Class; PYTHONPATH names the folder of a module of your own"
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"cannot load '{name}': {error}", hint=hint) from error
        if not callable(found):
            raise ConfigError(f"'{name}' is no class", hint=hint)
        return found
    for point in _points(group).select(name=name):
        try:
            return point.load()
        except ImportError as error:
            hint = "`ht doctor` says which extra provides it"
            raise Prerequisite(f"'{name}' needs a library that is not installed: {error}", hint=hint) from error
    known = names(group)
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
    raise NotFound(f"no '{name}' among {group}", hint=hint)


def _points(group: str) -> EntryPoints:
    return _read(group, tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _read(group: str, _places: tuple[str, ...]) -> EntryPoints:
    """Entry points are read from the files of every installed package: once, until there are other places to look."""
    return entry_points(group=f"harnesstrain.{group}")
