"""Tasks and panels."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record


class Environment(Record):
    """Where a task happens.  `digest` covers every byte of the build context and every setting here but the paths."""

    context: Path | None = Field(default=None, exclude=True)
    """Directory with the Dockerfile (host path)."""
    image: str | None = None
    """A ready image instead of a Dockerfile."""
    workdir: str | None = None
    """Where commands start; None: the image's own."""
    user: str | None = None
    """Who the agent's commands run as; None: the image's own."""
    env: dict[str, str] = Field(default_factory=dict)
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    network: str = "none"
    build_timeout: float = 600.0
    """Seconds."""
    digest: str = ""


class Verifier(Record):
    """How a final state is graded."""

    tests: Path = Field(exclude=True)
    """Directory uploaded to /tests for grading only (host path)."""
    timeout: float = 600.0
    """Seconds."""
    env: dict[str, str] = Field(default_factory=dict)
    user: str | None = None
    parser: str = Field(default="", exclude=True)
    """Reads the results from what the verifier printed, into `/logs/verifier/run-tests.txt`; empty: it writes a
    reward itself."""
    digest: str = ""
    """Covers every byte of `tests` and the settings above."""


class Solution(Record):
    """A reference solution, for `ht tasks oracle`."""

    path: Path = Field(exclude=True)
    """Directory uploaded to /solution; `solve.sh` is run (host path)."""
    timeout: float = 600.0
    env: dict[str, str] = Field(default_factory=dict)


class Task(Record):
    """An instruction, an environment, a verifier, budgets."""

    name: str
    """Unique within a panel: the directory's name."""
    digest: str
    """Covers every byte that can influence the agent or the grade."""
    instruction: str
    environment: Environment
    verifier: Verifier
    solution: Solution | None = None
    timeout: float | None = None
    """Seconds of recorded time an agent gets; None: the regime's."""
    pass_reward: float = 1.0
    """Solved means reward >= this."""
    metadata: dict[str, str] = Field(default_factory=dict)
    """Difficulty, category, tags: for people."""


class PanelTask(Record):
    """One task's place in a panel."""

    name: str
    digest: str
    split: str = "train"
    """train, holdout or sealed."""


class Panel(Record):
    """The named, ordered selection of tasks that a run measures."""

    name: str
    tasks: tuple[PanelTask, ...]

    @property
    def digest(self) -> str:
        """Covers the tasks and their order; not the panel's name or splits."""
        return digest([[task.name, task.digest] for task in self.tasks])
