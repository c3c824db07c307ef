"""harnesstrain: PyTorch-style training for LLM harnesses. The model stays frozen, the program around it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harnesstrain.store.frames.opened import OpenStore

__version__ = "0.1.0"
__all__ = ["__version__", "open_store"]


def open_store(path: str | Path | None = None, *, environ: Mapping[str, str] | None = None) -> OpenStore:
    """The records of a project as data frames, to read; nothing in it is changed, and others may be writing to it.

    `path`: a folder of the project, its ht.toml, or the store's own folder; None: the project of the working directory.
    `environ`: variables to go by, such as `os.environ` with HT_STORE; by default none.
    Raises Prerequisite (no store there; an older one: `ht db upgrade`), ConfigError (ht.toml), UsageError (no path).
    """
    from harnesstrain.store.frames.opened import open_store as opened

    return opened(path, environ=environ)
