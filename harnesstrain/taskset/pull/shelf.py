"""The data sets here.  Each is made whole or not at all: a part that a crash left is never taken for one."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from harnesstrain.core.errors import Busy, ConfigError, Prerequisite
from harnesstrain.core.records.base import Record
from harnesstrain.taskset.content import digest_directory
from harnesstrain.taskset.pull.finding import Found
from harnesstrain.taskset.source import TASKS, datasets, digest_tasks

MANIFEST = "pulled.json"
ROOM = 256 << 20
"""Bytes that a pull leaves free on the disk."""


class Manifest(Record):
    """What a pulled data set is."""

    name: str
    origin: str
    """Where it came from: a repository, a directory, an archive, a file of rows."""
    commit: str | None = None
    """Of the repository."""
    digest: str
    """Of all tasks."""
    tasks: dict[str, str]
    """The digest of each, by name."""
    bytes: int


@dataclass(frozen=True)
class Wanted:
    """A data set to be put on the shelf."""

    name: str
    origin: str
    commit: str | None = None
    digest: str | None = None
    """What it must have; None: unknown."""
    folder: Path | None = None
    """Where it goes; None: a folder of its name and digest."""


@dataclass(frozen=True)
class Placed:
    """A data set that is on the shelf now."""

    folder: Path
    manifest: Manifest


def here(folder: Path) -> Manifest | None:
    """The manifest of a data set; None when it is not here.  Raises ConfigError when it cannot be read."""
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise ConfigError(f"{path} cannot be read", hint=f"remove {folder}, then pull again") from None


def changed(folder: Path, manifest: Manifest, wanted: Sequence[str]) -> str | None:
    """Why what lies in `folder` is not what its manifest says, or lacks a task; None: it is and does not."""
    if missing := [name for name in wanted if name not in manifest.tasks]:
        return f"it lacks {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
    if digest_tasks(manifest.tasks) != manifest.digest:
        return f"its {MANIFEST} was changed"
    for name, digest in manifest.tasks.items():
        try:
            found = digest_directory(folder / TASKS / name)
        except ConfigError as error:
            return error.message
        if found != digest:
            return f"task '{name}' was changed"
    return None


class Shelf:
    """Where data sets are put."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or datasets()

    @contextmanager
    def workplace(self) -> Iterator[Path]:
        """An empty directory on the shelf's disk, removed afterwards.  Old ones of ended processes go too."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for left in self.root.glob(".part-*"):
                if time.time() - left.lstat().st_mtime > 86_400:
                    shutil.rmtree(left, ignore_errors=True)
            part = Path(tempfile.mkdtemp(prefix=".part-", dir=self.root))
        except OSError as error:
            msg = f"cannot write {self.root}: {error.strerror}"
            raise Prerequisite(msg, hint="make room there, or set XDG_CACHE_HOME to another place") from None
        try:
            yield part
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def need(self, size: int) -> None:
        """Raises Prerequisite when the disk has no room for `size` bytes more."""
        place = next(path for path in (self.root, *self.root.parents) if path.is_dir())
        free = shutil.disk_usage(place).free
        if free < size + ROOM:
            msg = f"{place} has {free / 1e9:.1f} GB free, and {size / 1e9:.1f} GB are needed"
            raise Prerequisite(msg, hint="make room there, or set XDG_CACHE_HOME to another place")

    def put(self, part: Path, found: Found, wanted: Wanted) -> Placed:
        """Copy tasks into a data set, checked.  `part`: a workplace.

        Raises ConfigError (a task that no sandbox would be given, another digest), Prerequisite (no room), Busy.
        """
        tasks = part / "made" / TASKS
        tasks.mkdir(parents=True)
        digests: dict[str, str] = {}
        try:
            for name in found.names:
                digests[name] = digest_directory(found.folder / name)
                shutil.copytree(found.folder / name, tasks / name, symlinks=True)
                if digest_directory(tasks / name) != digests[name]:
                    raise ConfigError(f"{found.folder / name} changed while it was copied", hint="run it again")
        except (OSError, shutil.Error) as error:
            why = getattr(error, "strerror", None) or str(error)[:200]
            raise Prerequisite(f"cannot copy the tasks: {why}", hint="make room on the disk, then rerun") from None
        whole = digest_tasks(digests)
        if wanted.digest not in (None, whole):
            msg = f"what {wanted.origin} holds is not data set '{wanted.name}': its digest is {whole[:12]}…"
            hint = f"{wanted.digest[:12]}… is expected; take the commit that the panel names"
            raise ConfigError(msg, hint=hint, expected=wanted.digest, found=whole)
        made = Manifest(
            name=wanted.name,
            origin=wanted.origin,
            commit=wanted.commit,
            digest=whole,
            tasks=digests,
            bytes=found.bytes,
        )
        to = wanted.folder or self.root / f"{wanted.name}-{whole[:12]}"
        try:
            (part / "made" / MANIFEST).write_text(made.model_dump_json(indent=1), encoding="utf-8")
            _replace(part / "made", to, part / "before")
        except OSError as error:
            msg = f"cannot place the data set at {to}: {error.strerror}"
            raise Busy(msg, hint="another pull of it may be running; run it again") from None
        return Placed(to, made)


def _replace(new: Path, to: Path, aside: Path) -> None:
    """Put `new` in the place of `to`, whole."""
    _flush(new)
    to.parent.mkdir(parents=True, exist_ok=True)
    if to.exists():
        to.rename(aside)
    new.rename(to)


def _flush(folder: Path) -> None:
    """The manifest is on the disk before the data set has its name."""
    descriptor = os.open(folder / MANIFEST, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
