"""What `ht tasks pull` does: the tasks of a panel, or of any directory, archive or repository, into the user's cache.

Sizes are said first.  A data set is placed whole or not at all; what its panel file pins is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from harnesstrain.cli import output
from harnesstrain.cli.grading import load_rows
from harnesstrain.cli.session import settings_for
from harnesstrain.core.errors import ConfigError, NotFound, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.harness.fetching import Snapshot, fetch, is_address
from harnesstrain.taskset import panel_names
from harnesstrain.taskset.panelfile import PanelFile
from harnesstrain.taskset.panels import find_panel_file
from harnesstrain.taskset.pull import (
    PLACES,
    Found,
    Layout,
    Manifest,
    Shelf,
    Wanted,
    all_rows,
    changed,
    find_tasks,
    here,
    inside,
    is_archive,
    lay_rows,
    rows_in,
    unpack,
    unusable,
)
from harnesstrain.taskset.source import TASKS, Source

_AT = re.compile(r"((?:\w+://[^/]*/|[^/:@]+@[^/:]+:)\S*[^/])@([^/@:]*)")
"""An address and what stands after its last @."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ROWS = (".jsonl", ".parquet")


class PullSpec(Record):
    """The command's options."""

    what: str
    origin: str | None = None
    """Where to take a panel's tasks from instead of its repository."""
    path: str | None = None
    name: str | None = None
    force: bool = False
    dry_run: bool = False
    config: Path | None = None


@dataclass(frozen=True)
class Request:
    """What to bring, and from where."""

    name: str
    place: str
    """A directory, an archive, a file of rows, or the address of a repository."""
    names: tuple[str, ...] = ()
    """The tasks wanted; empty: all."""
    source: Source | None = None
    """What the panel file says."""
    path: str = ""
    only: bool = False
    """Whether the path was asked for, so that the tasks of no other are taken."""
    commit: str | None = None

    @property
    def rows(self) -> bool:
        """Whether the tasks are rows."""
        return self.place.endswith(_ROWS) or (self.source is not None and self.source.format == "swe-bench")

    def wanted(self, commit: str | None) -> Wanted:
        """What goes onto the shelf."""
        return Wanted(
            name=self.name,
            origin=self.place,
            commit=commit,
            digest=self.source.digest if self.source else None,
            folder=self.source.folder(self.name) if self.source else None,
        )


def run_pull(spec: PullSpec, *, as_json: bool) -> None:
    """Do it; prints the directory of the tasks."""
    request = request_of(spec)
    placed = request.source.folder(request.name) if request.source else None
    manifest = here(placed) if placed is not None and not spec.force else None
    why = why_again(request, placed, manifest) if placed is not None and manifest is not None else None
    if why is not None:
        output.say(f"what is here is not used: {why}")
    if placed is not None and manifest is not None and why is None:
        output.say(f"here already: {summary(manifest)}")
        tell_trust(request, manifest)
        tell(placed, manifest, as_json=as_json)
    elif spec.dry_run:
        plan(request, as_json=as_json)
    else:
        bring(request, as_json=as_json)


def why_again(request: Request, placed: Path, manifest: Manifest) -> str | None:
    """Why a data set that is here is not the one asked for; None: it is."""
    pinned = request.source.digest if request.source else None
    if pinned not in (None, manifest.digest):
        return f"its digest is {manifest.digest[:12]}…, and the panel file names {(pinned or '')[:12]}…"
    return changed(placed, manifest, request.names)


def tell_trust(request: Request, manifest: Manifest) -> None:
    """Say when nothing pins what is used."""
    if request.source is None or request.source.digest is not None:
        return
    if manifest.commit != request.source.commit:
        output.say(f"note: from {manifest.origin}, on trust: the panel file pins no digest to check a copy by")


def request_of(spec: PullSpec) -> Request:
    """What the command's words ask for.  Raises NotFound, UsageError, ConfigError."""
    if not spec.what.strip():
        raise UsageError("there is nothing to pull", hint="name a panel, a directory, an archive or an address")
    root = settings_for(config=spec.config).root
    panel = find_panel_file(spec.what, root)
    if panel is not None:
        return _of_panel(spec, panel)
    if spec.origin is not None:
        raise _unknown(spec.what, root, "--from belongs to a panel; ")
    place, commit = spec.what, None
    if is_address(spec.what):
        if (address := _AT.fullmatch(spec.what)) is not None:
            place, commit = address[1], _commit(address[2])
    elif Path(place).exists():
        place = str(Path(place).resolve())
    else:
        raise _unknown(spec.what, root)
    name = spec.name or re.sub(r"\.(git|zip|jsonl|parquet|tar(\.\w+)?|tgz)$", "", place.rstrip("/").rpartition("/")[2])
    if not re.fullmatch(r"[\w.-]+", name):
        raise UsageError(f"'{name}' is no name of a data set", hint="give one: --name NAME")
    path = _path(spec, place)
    return Request(name=name, place=place, path=path, only=bool(path), commit=commit)


def _of_panel(spec: PullSpec, panel: PanelFile) -> Request:
    if panel.published is None:
        msg = f"the tasks of panel '{panel.name}' are not pulled: they lie in '{panel.source}'"
        raise UsageError(msg, hint=f"`ht tasks list {spec.what}` shows them")
    if spec.name is not None:
        raise UsageError("--name is for data sets without a panel", hint="the panel's own name is used")
    source = panel.published
    if spec.path is not None and spec.origin is None:
        raise UsageError("--path of a panel belongs to --from", hint="the panel file names the path in its repository")
    place = spec.origin or source.repository
    if is_address(place) and (address := _AT.fullmatch(place)) is not None:
        place = address[1]
        if _commit(address[2]) != source.commit:
            hint = "leave @COMMIT out, or write a panel file of your own"
            raise UsageError(
                f"panel '{panel.name}' is of commit {source.commit[:12]}, not {address[2][:12]}", hint=hint
            )
    if not is_address(place):
        if not Path(place).exists():
            raise NotFound(f"there is no {place}", hint="--from takes a directory, an archive, rows or an address")
        place = str(Path(place).resolve())
    return Request(
        name=panel.name,
        place=place,
        names=panel.names,
        source=source,
        path=source.path if spec.path is None else _path(spec, place),
        only=bool(spec.path and _path(spec, place)),
        commit=source.commit,
    )


def _path(spec: PullSpec, place: str) -> str:
    """Where below the place the tasks lie, as asked for.  Raises UsageError."""
    if spec.path in (None, "", ".", "./"):
        return ""
    clean = inside(spec.path or "")
    if clean is None:
        raise UsageError(f"--path {spec.path} lies outside of {place}", hint="name a folder in it, without ..")
    if place.endswith(_ROWS):
        raise UsageError(f"--path names a folder, and {place} is a file of rows", hint="leave it out")
    return clean


def _commit(text: str) -> str:
    """The commit that stands after an address.  Raises UsageError."""
    commit = text.lower()
    if not _COMMIT.fullmatch(commit) or not int(commit, 16):
        hint = "`git ls-remote URL` shows them; without @COMMIT it is the newest"
        raise UsageError(f"'{text}' is no commit: COMMIT must be 40 hex digits", hint=hint)
    return commit


def _unknown(what: str, root: Path, why: str = "") -> NotFound:
    close = get_close_matches(what, panel_names(root), n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"known panels: {', '.join(panel_names(root))}"
    return NotFound(f"'{what}' is no panel, directory, archive or address", hint=why + hint)


def plan(request: Request, *, as_json: bool) -> None:
    """Say what would be brought; fetches and writes nothing."""
    tasks, size = len(request.names) or None, request.source.bytes if request.source else None
    if Path(request.place).is_dir() and not request.rows:
        top = Path(request.place, request.path)
        if request.source is None and top.is_dir() and all_rows(top):
            rows = rows_in(Path(request.place), request.path, only=True)
            tasks = len(rows) - len(unusable(rows))
        else:
            found = find_tasks(Path(request.place), request.path, request.names, only=request.only)
            tasks, size = len(found.names), found.bytes
            tell_left_out(found, request)
    elif Path(request.place).is_file():
        size = Path(request.place).stat().st_size
    body = {
        "name": request.name,
        "origin": request.place,
        "commit": request.commit,
        "tasks": tasks,
        "bytes": size,
        "images": request.source.images if request.source else None,
        "folder": str(request.source.folder(request.name)) if request.source else None,
    }
    if as_json:
        output.emit("plan", body)
        return
    at = f" at {request.commit[:12]}" if request.commit and is_address(request.place) else ""
    output.data(f"{request.name}: {sizes(tasks, size, request.source)}, from {request.place}{at}")


def bring(request: Request, *, as_json: bool) -> None:
    """Bring it."""
    shelf = Shelf()
    if request.source is not None and request.source.bytes:
        shelf.need(2 * request.source.bytes)
    with shelf.workplace() as part, _named(part, request), _origin(request, part, shelf) as (found, commit):
        output.say(f"{request.name}: {sizes(len(found.names), found.bytes, request.source)}")
        tell_left_out(found, request)
        shelf.need(found.bytes)
        pinned = request.source is None or request.path == request.source.path
        placed = shelf.put(part, found, request.wanted(commit if pinned else None))
    output.say(f"pulled {summary(placed.manifest)}")
    tell_trust(request, placed.manifest)
    tell(placed.folder, placed.manifest, as_json=as_json)


@contextmanager
def _named(part: Path, request: Request) -> Iterator[None]:
    """Errors name the place that was asked for, and not a copy of it that is gone when they are read."""
    try:
        yield
    except ConfigError as error:
        message = error.message
        for copy in ("fetched", "unpacked", "rows", f"made/{TASKS}"):
            message = message.replace(str(part / copy), request.place.rstrip("/"))
        raise ConfigError(message, hint=error.hint, **error.extra) from None


@contextmanager
def _origin(request: Request, part: Path, shelf: Shelf) -> Iterator[tuple[Found, str | None]]:
    """The tasks, as files on this machine, and the commit they are of."""
    place = Path(request.place)
    if is_address(request.place):
        at = f" at {request.commit[:12]}" if request.commit else ""
        output.say(f"fetching {request.place}{at}")
        snapshot = fetch(request.place, request.commit, shelf.root / ".fetched")
        _export(snapshot, request, part / "fetched", shelf)
        yield _found(request, part / "fetched", part), snapshot.commit
        snapshot.discard()
    elif place.is_dir():
        yield _found(request, place, part), None
    elif is_archive(place):
        shelf.need(place.stat().st_size)
        output.say(f"unpacking {place}")
        unpack(place, part / "unpacked")
        yield _found(request, part / "unpacked", part), None
    elif request.rows:
        yield lay_rows(load_rows(place), request.names, part / "rows", request.place), None
    else:
        raise UsageError(f"{place} is no archive", hint="tar (gz, bz2, xz), zip, JSON lines or Parquet")


def _found(request: Request, root: Path, part: Path) -> Found:
    if request.rows:
        rows = rows_in(root, request.path, only=request.only)
        return lay_rows(rows, request.names, part / "rows", request.place)
    top = root / request.path
    if request.source is None and top.is_dir() and all_rows(top):
        return lay_rows(rows_in(root, request.path, only=True), (), part / "rows", request.place)
    return find_tasks(root, request.path, request.names, only=request.only)


def tell_left_out(found: Found, request: Request) -> None:
    """Say which tasks of the tree are not taken, and how to get them."""
    if found.unusable:
        shown = "; ".join(found.unusable[:5]) + ("; …" if len(found.unusable) > 5 else "")
        output.say(f"note: {output.counted(len(found.unusable), 'row')} left out that can be no task: {shown}")
    if found.left_out:
        shown = ", ".join(found.left_out[:5]) + (" …" if len(found.left_out) > 5 else "")
        left = output.counted(len(found.left_out), "task")
        output.say(f"note: {left} left out: {shown}; a data set is the tasks of one folder, or rows alone")
        place = f"{request.place}@{request.commit}" if request.commit else request.place
        if folder := next((above for one in found.left_out if (above := one.rpartition("/")[0])), ""):
            output.say(f"hint: `ht tasks pull {place} --path {folder} --name NAME` brings those of another folder")


def _export(snapshot: Snapshot, request: Request, target: Path, shelf: Shelf) -> None:
    """Write the files of a commit that may be part of a task."""
    prefix = f"{request.path}/" if request.path else ""
    names = frozenset(request.names)
    kept = {
        path: size
        for path, size in snapshot.sizes().items()
        if path.startswith(prefix)
        and (not names or path.removeprefix(prefix).partition("/")[0] in names)
        and (not request.rows or path.endswith(PLACES))
    }
    shelf.need(2 * sum(kept.values()))
    layout = Layout(target, request.place)
    for blob in snapshot.blobs(list(kept)):
        if blob.link:
            layout.link(blob.path, blob.data.decode("utf-8", "surrogateescape"))
        else:
            layout.file(blob.path, [blob.data], executable=blob.executable)
    layout.finish()


def sizes(tasks: int | None, size: int | None, source: Source | None) -> str:
    """How much it is, for people."""
    disk = f"{size / 1e6:.1f} MB on disk" if size is not None else "size known once it is fetched"
    images = (source.images if source else None) or "known once they are built or pulled: `ht tasks prebuild -n`"
    return f"{output.counted(tasks, 'task') if tasks is not None else 'all tasks'}, {disk}; images: {images}"


def summary(manifest: Manifest) -> str:
    """A data set in one line."""
    at = f" at {manifest.commit[:12]}" if manifest.commit else ""
    tasks = output.counted(len(manifest.tasks), "task")
    return f"{manifest.name}: {tasks} from {manifest.origin}{at}, digest {manifest.digest[:12]}…"


def tell(folder: Path, manifest: Manifest, *, as_json: bool) -> None:
    """The directory of the tasks on stdout."""
    if as_json:
        output.emit("dataset", {"path": str(folder / TASKS), **manifest.model_dump(mode="json")})
    else:
        output.data(str(folder / TASKS))
