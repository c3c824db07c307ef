"""Where shipped files lie: `harnesstrain/_data/NAME` in an installed wheel, `NAME` beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

from harnesstrain.core.errors import Prerequisite


def shipped(name: str) -> Path:
    """The directory of shipped data `name`: migrations, tasksets, bootstrap.  Raises Prerequisite if missing."""
    package = Path(__file__).resolve().parent.parent
    for place in (package / "_data" / name, package.parent / name):
        if place.is_dir():
            return place
    raise Prerequisite(f"shipped data '{name}' is missing", hint="reinstall harnesstrain")
