"""Where model files lie: one directory, files named by digest, each with a stamp that says when it was verified.

Hashing a gigabyte takes seconds, so a file that was verified once is trusted while its size, time and inode stay the
same.  A killed pull leaves only partial files that the next pull continues or removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from harnesstrain.core.digests import digest_bytes
from harnesstrain.core.errors import Busy, Prerequisite
from harnesstrain.core.records.base import Record
from harnesstrain.llm.models.catalogue import Entry, by_digest

BLOCK = 1 << 22
"""Bytes read at a time."""


class ModelFile(Record):
    """A model file that was verified."""

    name: str
    """Catalogue name, or the file's own name."""
    path: Path
    sha256: str
    size: int
    """Bytes."""
    context: int | None = None
    """Tokens it was trained to take; None: only the file knows."""
    system: str | None = None
    """What its template says when a conversation has no system message; None: nothing particular."""


class Shelf:
    """The cache directory of model files."""

    def __init__(self, root: Path | None = None) -> None:
        """`root` None: the user's cache directory."""
        self.root = root or platformdirs.user_cache_path("harnesstrain") / "models"

    def path(self, entry: Entry) -> Path:
        """Where the model's file lies once it is accepted."""
        return self.root / f"{entry.sha256}.gguf"

    def partial(self, entry: Entry, source: str) -> Path:
        """Where a source collects the model's bytes."""
        return self.root / f"{entry.sha256}.{source}.partial"

    def find(self, entry: Entry) -> ModelFile | None:
        """The model's file if it is here and right.  Hashes it only when its stamp does not match."""
        path = self.path(entry)
        if not path.is_file() or path.stat().st_size != entry.size:
            return None
        found = self.identify(path)
        return found if found.sha256 == entry.sha256 else None

    def identify(
        self, path: Path, progress: Callable[[int], None] = lambda done: None, known: str | None = None
    ) -> ModelFile:
        """A model file anywhere, by its content.  Raises Prerequisite when it cannot be read.

        `progress` is told how many bytes were hashed, when hashing is needed.  `known`: the digest, just computed.
        """
        try:
            path = path.resolve(strict=True)
            stamp = self._stamp(path)
            facts = path.stat()
            marks = [facts.st_size, facts.st_mtime_ns, facts.st_ino]
            sha256 = _recorded(stamp, marks)
            if sha256 is None:
                sha256 = known or content_digest(path, progress)
                self.root.mkdir(parents=True, exist_ok=True)
                replace_file(stamp, json.dumps({"marks": marks, "sha256": sha256}).encode())
        except OSError as error:
            raise Prerequisite(f"model file {path} cannot be read: {error}", hint="`ht model list`") from error
        listed = by_digest(sha256)
        return ModelFile(
            name=listed.name if listed else path.stem,
            path=path,
            sha256=sha256,
            size=facts.st_size,
            context=listed.context if listed else None,
            system=listed.system if listed else None,
        )

    def forget(self, path: Path) -> None:
        """Drop a file's stamp, so that it is hashed when it is asked for next."""
        self._stamp(path.resolve()).unlink(missing_ok=True)

    @contextmanager
    def pulling(self, entry: Entry, wait: bool, waiting: Callable[[], None]) -> Iterator[None]:
        """Hold the model's pull lock.  The kernel frees it when the holder dies.

        Raises Busy when another process holds it and `wait` is false; calls `waiting` once when it has to wait.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f"{entry.sha256}.lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if not wait:
                    raise Busy(f"{entry.name} is being pulled by another process", hint="wait for it") from error
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _stamp(self, path: Path) -> Path:
        if path.parent == self.root.resolve():
            return path.with_suffix(".verified")
        return self.root / f"file-{digest_bytes(os.fsencode(path))[:32]}.verified"


def content_digest(path: Path, progress: Callable[[int], None] = lambda done: None) -> str:
    """sha256 (64 hex) of a file, read in blocks."""
    state, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            state.update(block)
            done += len(block)
            progress(done)
    return state.hexdigest()


def replace_file(path: Path, data: bytes) -> None:
    """Write a small file so that a reader sees the old or the new one, also after a crash."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _recorded(stamp: Path, marks: list[int]) -> str | None:
    """The digest that a stamp vouches for, if it is about this very file."""
    try:
        said = json.loads(stamp.read_bytes())
        return str(said["sha256"]) if said["marks"] == marks else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
