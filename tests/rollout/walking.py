"""Places without a harness: a list of commands, acted on one after another."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnesstrain.core.records.cache import GradeEntry
from harnesstrain.core.records.rollout import Source
from harnesstrain.core.records.sandbox import Limits, RunResult
from harnesstrain.core.records.task import Environment, Task
from harnesstrain.rollout.action import run_action
from harnesstrain.rollout.bench import Bench, Cell
from harnesstrain.rollout.place import Place
from harnesstrain.sandbox.local import LocalSandbox
from harnesstrain.sandbox.local_session import LocalSession
from tests.rollout.making import Workbench

LONG = 1000.0


class Kept(dict[str, Any]):
    """A cache in memory."""

    def put(self, key: str, value: Any) -> None:
        self.setdefault(key, value)


class Watched(LocalSandbox):
    """Remembers what it opened."""

    def __init__(self, cache: Path) -> None:
        super().__init__(cache_dir=cache)
        self.opened: list[LocalSession] = []
        self.starts: list[str | None] = []
        """The kept state each one started from."""

    def open(self, environment: Environment, *, limits: Limits | None = None, at: str | None = None) -> LocalSession:
        session = super().open(environment, limits=limits, at=at)
        self.opened.append(session)
        self.starts.append(at)
        return session


@dataclass(frozen=True)
class Walked:
    """What came of a list of commands."""

    results: tuple[RunResult | None, ...]
    sources: tuple[Source, ...]
    executions: int
    opened: int
    started_at: tuple[str | None, ...]
    state: str | None
    graded: GradeEntry | None
    grade_cached: bool

    @property
    def said(self) -> list[tuple[int, bytes, bytes] | None]:
        """What a harness would have seen."""
        return [None if one is None else (one.exit_code, one.stdout, one.stderr) for one in self.results]


class Walker:
    """One task, its caches, and walks through it."""

    def __init__(self, folder: Path, sandbox: Watched) -> None:
        self.folder = folder
        self.sandbox = sandbox
        self.steps, self.grades = Kept(), Kept()
        self._made = Workbench(folder, sandbox)
        environment = Environment(workdir="/app", digest=uuid.uuid4().hex * 2)
        self.task: Task = self._made.task(environment=environment)

    def bench(self, **changes: Any) -> Bench:
        """A bench with this walker's caches."""
        fields: Mapping[str, Any] = {"step_cache": self.steps, "verify_cache": self.grades, **changes}
        return self._made.bench(**fields)

    def cell(self, *, thorough: bool = False, rollout: str = "4" * 64) -> Cell:
        """An attempt at the task."""
        cell = self._made.cell("", self.task)
        return Cell(**{**vars(cell), "thorough": thorough, "rollout": rollout})

    def walk(
        self,
        commands: Sequence[str],
        *,
        remaining: float = LONG,
        timeout: float | None = None,
        thorough: bool = False,
        rollout: str = "4" * 64,
        grade: bool = False,
        state: bool = False,
        bench: Bench | None = None,
    ) -> Walked:
        """Act on every command; `state`: and say what files are left, in a real environment."""
        place = Place(self.cell(thorough=thorough, rollout=rollout), bench or self.bench())
        before = len(self.sandbox.opened)
        place.workdir()
        try:
            done = [
                place.act(index, run_action(command, None, timeout, None), remaining)
                for index, command in enumerate(commands)
            ]
            graded = place.grade() if grade else None
            executions, opened = place.executions, len(self.sandbox.opened) - before
            files = self.sandbox.opened[-1].state() if state else None
        finally:
            place.close()
        return Walked(
            results=tuple(None if one.entry is None else one.entry.result for one in done),
            sources=tuple(one.source for one in done),
            executions=executions,
            opened=opened,
            started_at=tuple(self.sandbox.starts[before : before + opened]),
            state=files,
            graded=graded.entry if graded else None,
            grade_cached=graded.cached if graded else False,
        )
