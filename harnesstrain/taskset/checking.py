"""Every task of a panel: ok, unsupported or in error, and why.  Starts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from harnesstrain.core.errors import HtError, Unsupported
from harnesstrain.core.records.base import Record
from harnesstrain.taskset.panels import LoadedPanel, load_panel
from harnesstrain.taskset.published import published_digest


class TaskCheck(Record):
    """What is known about one task without running it."""

    name: str
    split: str
    directory: Path
    status: Literal["ok", "unsupported", "error"]
    reasons: tuple[str, ...] = ()
    """Why it is not ok."""
    hint: str | None = None
    notes: tuple[str, ...] = ()
    """What its author should know, whatever the status."""
    digest: str | None = None
    """None unless ok."""
    published: str | None = None
    """The digest under which Harbor's registries name this content (`sha256:…`); None unless ok."""
    has_solution: bool = False
    metadata: dict[str, str] = {}
    """Difficulty, category, tags."""
    runs: dict[str, tuple[str, ...] | None] = {}
    """What speaks against each kind of sandbox that was asked; empty: it runs there; None: no such sandbox here."""


class PanelCheck(Record):
    """The checks of a panel, in panel order."""

    name: str
    digest: str | None
    """None unless every task is ok."""
    tasks: tuple[TaskCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether every task can be measured."""
        return all(task.status == "ok" for task in self.tasks)


def check_panel(name_or_path: str | Path, root: Path | None = None) -> PanelCheck:
    """Check every task of a panel.  Raises as `load_panel` for the panel itself, never for a task in it."""
    return check_loaded(load_panel(name_or_path, root))


def check_loaded(loaded: LoadedPanel) -> PanelCheck:
    """Check every task of a panel that is loaded already."""
    checks = tuple(_check(loaded, place.task, place.split) for place in loaded.places)
    return PanelCheck(name=loaded.name, digest=None if loaded.troubles else loaded.panel.digest, tasks=checks)


def _check(loaded: LoadedPanel, name: str, split: str) -> TaskCheck:
    directory = loaded.source / name
    notes = loaded.notes.get(name, ())
    if name in loaded.troubles:
        trouble = loaded.troubles[name]
        status: Literal["unsupported", "error"] = "unsupported" if isinstance(trouble, Unsupported) else "error"
        reasons = reasons_of(trouble)
        return TaskCheck(
            name=name, split=split, directory=directory, status=status, reasons=reasons, hint=trouble.hint, notes=notes
        )
    task = loaded.tasks[name]
    return TaskCheck(
        name=name,
        split=split,
        directory=directory,
        status="ok",
        notes=notes,
        digest=task.digest,
        published=published_digest(directory) if (directory / "task.toml").is_file() else None,
        has_solution=task.solution is not None,
        metadata=task.metadata,
    )


def reasons_of(trouble: HtError) -> tuple[str, ...]:
    """Why a task cannot be used, one reason a line."""
    problems = trouble.extra.get("problems")
    return tuple(problems) if problems else (trouble.message,)
