"""What `ht report` writes to files: each whole or not at all, a page of a folder before what links to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harnesstrain.core.errors import HtError, Prerequisite, UsageError
from harnesstrain.core.records.base import Record

if TYPE_CHECKING:
    from harnesstrain.harness.repo import HarnessRepo
    from harnesstrain.stages.report import Report
    from harnesstrain.store import Store

INDEX, TRACES = "index.html", "traces"
"""Of a folder: the report, and where the rollouts' pages are."""


class Folder(Record):
    """What was written beside a report."""

    rollouts: int
    """Pages, one for each."""
    size: int
    """Bytes of those."""


def patch_of(repo: HarnessRepo) -> Callable[[str, str], str | None]:
    """The diff between two versions; None for versions that this repo does not know."""

    def patch(base: str, cand: str) -> str | None:
        try:
            return repo.diff(base, cand)
        except HtError:
            return None

    return patch


def write(path: Path, text: str) -> None:
    """Replace a file as a whole.  Raises Prerequisite when it cannot be written."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        msg = f"cannot write {path}: {error.strerror}"
        raise Prerequisite(msg, hint="check the path and the disk") from error


def write_folder(folder: Path, store: Store, report: Report) -> Folder:
    """The report and a page for every rollout that it links to.

    Raises UsageError for a folder with other things in it, Prerequisite when it cannot be written.
    """
    from harnesstrain.stages.report.html import to_html
    from harnesstrain.stages.report.html.traces import trace_files

    _own(folder)
    (folder / TRACES).mkdir(parents=True, exist_ok=True)
    count = size = 0
    for page in trace_files(store, report, back=f"../{INDEX}"):
        write(folder / TRACES / page.name, page.html)
        count += 1
        size += len(page.html.encode())
    write(folder / INDEX, to_html(report, traces=TRACES))
    return Folder(rollouts=count, size=size)


def _own(folder: Path) -> None:
    """Make sure that nothing but an earlier report is in the way."""
    try:
        found = {one.name for one in folder.iterdir()} if folder.exists() else set()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot write {folder}: {error.strerror}"
        raise Prerequisite(msg, hint="--full takes a folder of its own") from error
    if foreign := sorted(found - {INDEX, TRACES}):
        msg = f"{folder} holds other things: {', '.join(foreign[:3])}"
        raise UsageError(msg, hint="--full takes a new folder, or one with an earlier report")
