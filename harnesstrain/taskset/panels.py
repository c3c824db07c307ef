"""Panels: found by name or path, expanded, loaded, narrowed."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from harnesstrain.core.errors import ConfigError, HtError, NotFound, Prerequisite, UsageError
from harnesstrain.core.records.task import Panel, PanelTask, Task
from harnesstrain.core.resources import shipped
from harnesstrain.taskset.base import SPLITS, Inspected, inspect_task, recognise, unsupported
from harnesstrain.taskset.document import Document, read
from harnesstrain.taskset.panelfile import PanelFile, Place, match, narrowed, parse, places
from harnesstrain.taskset.source import TASKS, Source

FOLDER = "tasksets"
"""Where panel files are looked for, below the working directory and among the shipped files."""

NO_TEXT = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories of what no name of a task may hold: it is shown in lines and stored as text."""


@dataclass(frozen=True)
class LoadedPanel:
    """A panel with its tasks, in panel order."""

    name: str
    source: Path
    """Directory of the tasks."""
    places: tuple[Place, ...]
    tasks: Mapping[str, Task]
    """Those that can run, by name."""
    troubles: Mapping[str, HtError] = field(default_factory=dict)
    """Why the others cannot: ConfigError or Unsupported, by name."""
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the author of a task should know, by name."""

    @property
    def panel(self) -> Panel:
        """The record.  Raises the first trouble: no task leaves a panel silently."""
        for trouble in self.troubles.values():
            raise trouble
        chosen = [PanelTask(name=one.task, digest=self.tasks[one.task].digest, split=one.split) for one in self.places]
        return Panel(name=self.name, tasks=tuple(chosen))

    def refuse(self, refused: Mapping[str, HtError]) -> LoadedPanel:
        """The same panel, where these tasks cannot run either."""
        tasks = {name: task for name, task in self.tasks.items() if name not in refused}
        return replace(self, tasks=tasks, troubles={**self.troubles, **refused})

    def select(self, split: str | None = None, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> LoadedPanel:
        """The part in `split` (None: every split) that some `include` glob matches (none: all) and no `exclude` does.

        Raises UsageError: an unknown split, a glob that matches nothing.  ConfigError: nothing is left.
        """
        if split is not None and split not in SPLITS:
            raise UsageError(f"no split '{split}'", hint=f"a panel has {', '.join(SPLITS)}")
        names = [one.task for one in self.places]
        for pattern in (*include, *exclude):
            if not match([pattern], names):
                close = get_close_matches(pattern, names, n=1)
                hint = f"did you mean '{close[0]}'?" if close else "`ht tasks list` shows the tasks"
                raise UsageError(f"'{pattern}' matches no task of panel '{self.name}'", hint=hint)
        kept = (match(include, names) if include else set(names)) - match(exclude, names)
        left = tuple(one for one in self.places if one.task in kept and split in (None, one.split))
        if not left:
            where = f"split '{split}' of panel '{self.name}'" if split else f"panel '{self.name}'"
            raise ConfigError(f"no task is left in {where}", hint="`ht tasks list` shows the tasks and their splits")
        return _narrow(self, left)


def load_panel(name_or_path: str | Path, root: Path | None = None) -> LoadedPanel:
    """The panel at a path (a panel file, a directory of tasks, one task), else `ROOT/tasksets/NAME.toml`, else shipped.

    `NAME:SUBSET` is a part that the panel file names.
    `root` is the working directory when left out.  A task that cannot be used is kept as a trouble: it raises when the
    panel is taken with it in it.  Raises NotFound (no such panel), ConfigError (the file is wrong, nothing in it) or
    Prerequisite (its tasks were not pulled yet).
    """
    try:
        path, subset = _find(str(name_or_path), root or Path())
        return _from_directory(path) if path.is_dir() else _from_file(path, subset)
    except OSError as error:
        hint = "check the path and its permissions"
        raise ConfigError(f"cannot read panel '{name_or_path}': {error.strerror}", hint=hint) from None


def panel_names(root: Path | None = None) -> tuple[str, ...]:
    """Panels that can be loaded by name, sorted."""
    folders = ((root or Path()) / FOLDER, shipped(FOLDER))
    return tuple(sorted({path.stem for folder in folders for path in folder.glob("*.toml")}))


def find_panel_file(name: str, root: Path | None = None) -> PanelFile | None:
    """The panel file of that name or path; None where there is none.  Raises ConfigError."""
    found = _panel_path(name, root or Path())
    return parse(read(found)) if found is not None else None


class _Found(NamedTuple):
    path: Path
    subset: str | None = None


def _panel_path(text: str, root: Path) -> Path | None:
    if text.endswith(".toml") and (root / text).is_file():
        return root / text
    if text and "/" not in text and text not in (".", ".."):
        for folder in (root / FOLDER, shipped(FOLDER)):
            if (path := folder / f"{text}.toml").is_file():
                return path
    return None


def _find(text: str, root: Path) -> _Found:
    given = root / text
    written_as_path = "/" in text or text.endswith(".toml") or text in (".", "..")
    if given.is_file() or (given.is_dir() and (written_as_path or recognise(given) or _task_names(given))):
        return _Found(given)
    if path := _panel_path(text, root):
        return _Found(path)
    name, colon, subset = text.rpartition(":")
    if colon and (path := _panel_path(name, root)):
        return _Found(path, subset)
    known = panel_names(root)
    close = get_close_matches(text, known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}; or give a path"
    raise NotFound(f"no panel '{text}'", hint=hint)


def _from_file(path: Path, subset: str | None) -> LoadedPanel:
    document = read(path)
    panel = parse(document)
    source = _source(document, panel)
    found = places(document, panel, _task_names(source))
    if subset is None:
        return _load(panel.name, source, found)
    return _load(f"{panel.name}:{subset}", source, narrowed(document, panel, found, subset))


def _source(document: Document, panel: PanelFile) -> Path:
    """The directory of the tasks."""
    if panel.published is not None:
        return _pulled(panel, panel.published)
    source = document.path.parent / panel.source
    if not source.is_dir() and "/" not in panel.source:
        source = shipped(FOLDER) / panel.source
    if not source.is_dir():
        hint = "source is a directory of tasks, relative to the panel file"
        document.wrong(f"there is no directory '{panel.source}'", ("panel", "source"), hint)
    return source


def _pulled(panel: PanelFile, published: Source) -> Path:
    """The directory of tasks that were pulled, with the digest that the panel file names, if it names one."""
    from harnesstrain.taskset.pull.shelf import here

    folder = published.folder(panel.name)
    number, of = len(panel.names), f"of panel '{panel.name}'"
    tasks = f"the {number} tasks {of} were" if number > 1 else f"the task {of} was"
    if not (folder / TASKS).is_dir():
        hint = f"`ht tasks pull {panel.name}` brings them from {published.repository}"
        raise Prerequisite(f"{tasks} not pulled yet", hint=hint)
    manifest = here(folder)
    if published.digest is not None and (manifest is None or manifest.digest != published.digest):
        found = f"{manifest.digest[:12]}…" if manifest is not None else "unknown"
        msg = f"{tasks} not pulled with the digest that its file names: it is {found}"
        hint = f"{published.digest[:12]}… is expected: `ht tasks pull {panel.name} --force`"
        raise Prerequisite(msg, hint=hint)
    return folder / TASKS


def _from_directory(path: Path) -> LoadedPanel:
    path = path.resolve()
    names = _task_names(path)
    if not names and recognise(path):
        return _load(path.name, path.parent, (Place(task=path.name, split="train"),))
    if not names:
        raise ConfigError(f"{path} holds no task", hint="a task is a directory with a task.toml or a task.yaml")
    return _load(path.name, path, tuple(Place(task=name, split="train") for name in names))


def _task_names(source: Path) -> list[str]:
    return sorted(path.name for path in source.iterdir() if path.is_dir() and recognise(path))


def _load(name: str, source: Path, found: tuple[Place, ...]) -> LoadedPanel:
    twins: dict[str, str] = {}
    tasks: dict[str, Task] = {}
    troubles: dict[str, HtError] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for one in found:
        if any(unicodedata.category(character) in NO_TEXT for character in one.task):
            problem = f"{source}: the name of task {ascii(one.task)} holds what is no text"
            raise ConfigError(problem, hint="rename its directory")
        twin = twins.setdefault(one.task.casefold(), one.task)
        if twin != one.task:
            raise ConfigError(f"tasks '{twin}' and '{one.task}' differ in case only", hint="rename one of them")
        try:
            inspected: Inspected = inspect_task(source / one.task)
        except ConfigError as error:
            troubles[one.task] = error
            continue
        notes[one.task] = inspected.notes
        if inspected.task is None:
            troubles[one.task] = unsupported(one.task, inspected.problems)
        else:
            tasks[one.task] = inspected.task
    return LoadedPanel(name=name, source=source, places=found, tasks=tasks, troubles=troubles, notes=notes)


def _narrow(panel: LoadedPanel, left: tuple[Place, ...]) -> LoadedPanel:
    names = [one.task for one in left]
    return LoadedPanel(
        name=panel.name,
        source=panel.source,
        places=left,
        tasks={name: panel.tasks[name] for name in names if name in panel.tasks},
        troubles={name: panel.troubles[name] for name in names if name in panel.troubles},
        notes={name: panel.notes[name] for name in names if name in panel.notes},
    )
