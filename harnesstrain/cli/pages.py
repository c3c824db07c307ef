"""What `ht report` writes to files: each whole or not at all, a page of a folder before what links to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from harnesstrain.core.errors import HtError, Prerequisite, UsageError
from harnesstrain.core.records.base import Record

if TYPE_CHECKING:
    from harnesstrain.harness.repo import HarnessRepo
    from harnesstrain.stages.report import Report
    from harnesstrain.store import Store

STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")

INDEX, TRACES = "index.html", "traces"
"""Of a folder: the report, and where the rollouts' pages are."""


class Folder(Record):
    """What was written beside a report."""

    rollouts: int
    """Pages, one for each."""
    size: int
    """Bytes of those."""
    lost: int = 0
    """Of them, those that have no trace to show, and say why."""


def patch_of(repo: HarnessRepo) -> Callable[[str, str], str | None]:
    """The diff between two versions; None for versions that this repo does not know."""

    def patch(base: str, cand: str) -> str | None:
        try:
            return repo.diff(base, cand)
        except HtError:
            return None

    return patch


def write(path: Path, text: str) -> None:
    """Replace a file as a whole, or write to a pipe or a device.

    Raises UsageError (a folder), Prerequisite (it cannot be written).
    """
    from harnesstrain.store.files import io_error
    from harnesstrain.store.outlets import outlet

    place = outlet(path)
    data = text.encode()
    if place.direct:
        try:
            with place.path.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise io_error(error, path) from error
        return
    aside = place.path.with_name(f".{place.path.name}.{os.getpid()}.tmp")
    try:
        with aside.open("wb") as file:
            place.keep(file.fileno())
            file.write(data)
        aside.replace(place.path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise io_error(error, path) from error


def is_stdout(path: Path | None) -> bool:
    """Whether a report is to go to stdout, by whatever name."""
    return str(path) in STDOUT


def write_folder(folder: Path, store: Store, report: Report) -> Folder:
    """The report and a page for every rollout that it links to.

    Raises UsageError for a folder with other things in it, Prerequisite when it cannot be written, or the page not be
    made: then there is no folder.
    """
    from harnesstrain.stages.report.html import to_html
    from harnesstrain.stages.report.html.traces import trace_files

    _check(folder)
    index = to_html(report, traces=TRACES)
    _make(folder / TRACES)
    count = size = lost = 0
    for page in trace_files(store, report, back=f"../{INDEX}"):
        write(folder / TRACES / page.name, page.html)
        count += 1
        lost += bool(page.problem)
        size += len(page.html.encode())
    write(folder / INDEX, index)
    return Folder(rollouts=count, size=size, lost=lost)


def _check(folder: Path) -> None:
    """Make sure that nothing but an earlier report is in the way."""
    try:
        found = {one.name for one in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise _unusable(folder, error) from error
    if foreign := sorted(found - {INDEX, TRACES}):
        msg = f"{folder} holds other things: {', '.join(foreign[:3])}"
        raise UsageError(msg, hint="--full takes a new folder, or one with an earlier report")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: OSError) -> Prerequisite:
    return Prerequisite(f"cannot write {folder}: {error.strerror}", hint="--full takes a folder of its own")
