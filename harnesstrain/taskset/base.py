"""What a task format is, and loading one task with whichever format recognises its directory."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Protocol

from harnesstrain.core import registry
from harnesstrain.core.errors import ConfigError, NotFound, Unsupported
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.task import Task

SPLITS = ("train", "holdout", "sealed")
"""The parts a panel may have, in panel order."""


class Inspected(Record):
    """One task directory, read."""

    task: Task | None
    """None when `problems` say why it cannot run."""
    problems: tuple[str, ...] = ()
    """What the task needs and no sandbox here gives.  Such a task is never measured, so never scored 0."""
    notes: tuple[str, ...] = ()
    """What its author should know: keys that are ignored, a solution that cannot be used."""


class TaskFormat(Protocol):
    """A format of task directories.  Registered in the entry point group `harnesstrain.tasksets`."""

    name: str
    """As registered."""

    def sniff(self, directory: Path) -> bool:
        """Whether `directory` looks like a task of this format.  Cheap; reads no file."""

    def load(self, directory: Path) -> Inspected:
        """Read the task.  Raises ConfigError when its files are wrong."""


@functools.cache
def formats() -> tuple[TaskFormat, ...]:
    """Every registered format, by name.  Registered once per process."""
    return tuple(registry.load("tasksets", name)() for name in registry.names("tasksets"))


def recognise(directory: Path) -> TaskFormat | None:
    """The first format that recognises `directory`; None when there is none."""
    return next((one for one in formats() if one.sniff(directory)), None)


def inspect_task(directory: Path) -> Inspected:
    """Read the task in `directory`, whether it can run or not.  Raises NotFound or ConfigError."""
    if not directory.is_dir():
        raise NotFound(f"no task directory at {directory}", hint="`ht tasks list` shows the tasks there are")
    found = recognise(directory)
    if found is None:
        known = ", ".join(one.name for one in formats())
        hint = f"a task directory has a task.toml or a task.yaml (formats: {known})"
        raise ConfigError(f"{directory} is no task", hint=hint)
    return found.load(directory)


def load_task(directory: Path) -> Task:
    """The task in `directory`.

    Raises NotFound (no such directory), ConfigError (its files are wrong) or Unsupported (it needs what no sandbox
    here gives; `extra["problems"]` lists it all).
    """
    inspected = inspect_task(directory)
    if inspected.task is None:
        raise unsupported(directory.name, inspected.problems)
    return inspected.task


def unsupported(name: str, problems: tuple[str, ...]) -> Unsupported:
    """The error that says why task `name` cannot run."""
    hint = f"leave it out: --exclude {name}"
    return Unsupported(f"task '{name}' cannot run: {'; '.join(problems)}", hint=hint, problems=list(problems))
