"""Kept states on disk, by key: each one packed file, whole or not at all.

A state is written beside its place and renamed into it, so that after a kill at any moment there is a whole one or
none.  What was used last stays: the rest goes when all together are too large.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from harnesstrain.core import packed
from harnesstrain.core.errors import Prerequisite, SandboxFailure
from harnesstrain.sandbox.layers import PART, exclusive

STATES = "states"
"""Directory of kept states, below the cache directory."""
MAX_BYTES, MAX_ENTRIES = 256 << 20, 100_000
"""Bounds of one state."""
ALL_BYTES, ALL_STATES = 4 << 30, 100_000
"""Bounds of all states together."""
SHARE = 0.1
"""Of what the disk has free, at most."""
AFTER = 0.8
"""What is left of the bound when states had to go."""
BLOCK = 4096
LOOK = 200
"""States that are added between two looks at what other processes added."""


@dataclass(frozen=True, slots=True)
class StatesSize:
    """What the kept states take."""

    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KeptState:
    """One state: a packed tree."""

    path: Path
    facts: Mapping[str, Any]
    """What was noted when it was kept."""


def shared_states() -> States:
    """The states that this user's sandboxes keep, whatever the project."""
    return States(user_cache_path("harnesstrain") / STATES)


class States:
    """A directory of kept states.  Thread-safe; processes may share it."""

    def __init__(self, root: Path, *, all_bytes: int = ALL_BYTES) -> None:
        """Made when first used."""
        self.root = root
        self._all_bytes = all_bytes
        self._lock = threading.Lock()
        self._size = 0
        self._added = LOOK

    def first(self, keys: Sequence[str]) -> str | None:
        """The first of `keys` that is kept."""
        with contextlib.suppress(OSError):  # a place that cannot be read has none
            return next((key for key in keys if self._path(key).is_file()), None)
        return None

    def find(self, key: str) -> KeptState:
        """The state of `key`; it counts as used now.  Raises SandboxFailure when it is not there, or damaged."""
        path = self._path(key)
        try:
            facts = packed.read_facts(str(path))
            os.utime(path)
        except packed.Damaged as error:
            self.drop(key)
            raise SandboxFailure(f"the state kept under {key[:8]} is damaged") from error
        except OSError as error:
            raise SandboxFailure(f"no state is kept under {key[:8]}") from error
        return KeptState(path, facts)

    def keep(self, key: str, write: Callable[[BufferedWriter], None]) -> bool:
        """Keep what `write` writes; False where that cannot be: too large, no room, nothing to be written there."""
        path = self._path(key)
        part = self.root / f"{PART}{os.getpid()}-{secrets.token_hex(4)}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                write(out)
                size = -(-out.tell() // BLOCK) * BLOCK
            part.rename(path)
        except BaseException as error:
            with contextlib.suppress(OSError):
                part.unlink()
            if isinstance(error, OSError | packed.Unfit):
                return False
            raise
        with contextlib.suppress(OSError, Prerequisite):
            self._bound(size)
        return True

    def drop(self, key: str) -> None:
        """Forget the state of `key`."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def size(self) -> StatesSize:
        """What all of them take."""
        sizes = [size for _, size, _ in self._kept()]
        return StatesSize(len(sizes), sum(sizes))

    def sweep(self) -> int:
        """Remove what dead writers left unfinished; returns how many."""
        swept = 0
        for part in self.root.glob(f"{PART}*"):
            pid = part.name[len(PART) :].partition("-")[0]
            if not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists():
                part.unlink(missing_ok=True)
                swept += 1
        return swept

    def shrink(self, all_bytes: int, *, dry_run: bool = False) -> StatesSize:
        """Remove states until all together take at most `all_bytes`, the longest unused first; returns what went."""
        kept = sorted(self._kept())
        total, gone, freed = sum(size for _, size, _ in kept), 0, 0
        for _, size, path in kept:
            if total - freed <= all_bytes and len(kept) - gone <= ALL_STATES:
                break
            if not dry_run:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
            freed += size
            gone += 1
        self._size = total if dry_run else total - freed
        return StatesSize(gone, freed)

    def _path(self, key: str) -> Path:
        return self.root / key[:2] / key

    def _kept(self) -> Iterator[tuple[float, int, Path]]:
        """Last use, size and place of each."""
        for folder in self.root.glob("[0-9a-f][0-9a-f]"):
            with contextlib.suppress(FileNotFoundError), os.scandir(folder) as found:
                for item in found:
                    with contextlib.suppress(FileNotFoundError):
                        seen = item.stat(follow_symlinks=False)
                        yield seen.st_mtime, seen.st_blocks * 512, Path(item.path)

    def _bound(self, size: int) -> None:
        with self._lock:
            self._size += size
            self._added += 1
            room = shutil.disk_usage(self.root).free
            allowed = min(self._all_bytes, int((room + self._size) * SHARE))
            if self._added < LOOK and self._size <= allowed:
                return
            self._added = 0
            with exclusive(self.root, "bound"):
                self.sweep()
                found = self.size()
                self._size = found.bytes
                if found.bytes > allowed or found.count > ALL_STATES:
                    self.shrink(int(allowed * AFTER))
