"""Sealed layers on disk, by the digest of everything that went into them.

A layer is built in a temporary directory and renamed into place: after a kill at any moment there is either a whole
layer or none.  Builds of one digest wait for each other, across threads and processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import Prerequisite

PART = "part-"
LAYERS = "layers"
"""Directory of layers, below the cache directory."""
LOCKS = "locks"
"""Directory of lock files, below the cache directory."""


class Layers:
    """A directory of layers: `DIGEST/` holds whatever its builder put there, and `facts.json`."""

    def __init__(self, root: Path) -> None:
        """Made when first used.  Raises Prerequisite when it cannot be written."""
        self.root = root

    def find(self, digest: str) -> Path | None:
        """The layer of that digest, if it is there."""
        path = self.root / digest
        try:
            return path if (path / "facts.json").is_file() else None
        except OSError as error:
            raise Prerequisite(f"{path} cannot be read: {error.strerror}", hint="choose another cache_dir") from error

    def facts(self, layer: Path) -> dict[str, Any]:
        """What its builder noted."""
        found: dict[str, Any] = json.loads((layer / "facts.json").read_text())
        return found

    def obtain(self, digest: str, build: Callable[[Path], dict[str, Any]]) -> Path:
        """The layer of that digest, built by `build(directory) -> facts` if it is not there yet."""
        found = self.find(digest)
        if found:
            return found
        with exclusive(self.root, digest):
            found = self.find(digest)
            if found:
                return found
            part = self.root / f"{PART}{os.getpid()}-{secrets.token_hex(4)}"
            try:
                part.mkdir()
                facts = build(part)
                (part / "facts.json").write_text(json.dumps(facts))
                part.rename(self.root / digest)
            except BaseException as error:
                remove(part)
                if isinstance(error, OSError):
                    what = error.strerror or str(error)
                    raise Prerequisite(
                        f"a layer cannot be made in {self.root}: {what}", hint="is the disk full?"
                    ) from error
                raise
            return self.root / digest

    def sweep(self) -> int:
        """Remove what builders left that no longer live; returns how many."""
        swept = 0
        for part in self.root.glob(f"{PART}*"):
            pid = part.name[len(PART) :].partition("-")[0]
            if not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists():
                remove(part)
                swept += 1
        return swept


@contextlib.contextmanager
def exclusive(folder: Path, name: str) -> Iterator[None]:
    """One holder of `name` at a time, among threads and processes.  Raises Prerequisite: `folder` is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        lock = (folder / f"{name}.lock").open("w")
    except OSError as error:
        raise Prerequisite(f"{folder} cannot be written: {error.strerror}", hint="choose another cache_dir") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove(tree: Path) -> None:
    """Remove a directory tree, also one with unreadable folders in it (an overlay's work directory)."""
    for folder, folders, _ in os.walk(tree):
        for name in folders:
            path = Path(folder) / name
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(tree, ignore_errors=True)
