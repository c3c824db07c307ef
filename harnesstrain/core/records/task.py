"""Tasks and panels."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_serializer

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.sandbox import Grade

REWARD = "reward"
"""The key of a reward without a name."""


class Healthcheck(Record):
    """A command that must succeed before anybody works in an environment.  Docker's rules; times in seconds."""

    command: str
    interval: float = 5.0
    """Between two attempts."""
    timeout: float = 30.0
    """Of one attempt."""
    start_period: float = 0.0
    """In which failures do not count."""
    start_interval: float = 5.0
    """Between two attempts in the start period."""
    retries: int = 3
    """Failures in a row that count as unhealthy."""


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
    files: Path | None = Field(default=None, exclude=True)
    """Directory laid into the working directory of a ready image (host path)."""
    compose: str | None = Field(default=None, exclude=True)
    """The file that asks for further containers: its name in `context` or `files`, or its path (host path)."""
    healthcheck: Healthcheck | None = Field(default=None, exclude=True)
    """What must succeed before work begins."""
    digest: str = ""


class Artifact(Record):
    """A file or directory of the final state that a verifier in an environment of its own gets."""

    source: str
    """Absolute path; at the same path it is laid down for the verifier."""
    exclude: tuple[str, ...] = ()
    """Globs of names in a directory that are left out."""


class Collect(Record):
    """A command that is run in the final state before it is graded."""

    command: str
    timeout: float = 60.0
    """Seconds."""
    user: str | None = None
    """None: who the agent's commands run as."""


class Verifier(Record):
    """How a final state is graded."""

    tests: Path = Field(exclude=True)
    """Directory uploaded to /tests for grading only (host path)."""
    base: Path | None = Field(default=None, exclude=True)
    """Directory that lies below `tests` there: files of several steps (host path)."""
    timeout: float = 600.0
    """Seconds."""
    env: dict[str, str] = Field(default_factory=dict)
    user: str | None = None
    parser: str = Field(default="", exclude=True)
    """Reads the results from what the verifier printed, into `/logs/verifier/run-tests.txt`; empty: it writes a
    reward itself."""
    expected: Path | None = Field(default=None, exclude=True)
    """What changed in the working directory is graded, in a fresh environment, against this file, which no sandbox
    gets (host path); `parser` names how.  None: the final state is graded."""
    collect: tuple[Collect, ...] = Field(default=(), exclude=True)
    """Run in the final state, in order, before anything else."""
    environment: Environment | None = Field(default=None, exclude=True)
    """Where the grading happens; None: in the task's own environment."""
    artifacts: tuple[Artifact, ...] = Field(default=(), exclude=True)
    """What is carried over into `environment`."""
    in_image: bool = Field(default=False, exclude=True)
    """The image of `environment` holds /tests: nothing is uploaded."""
    templates: dict[str, str] = Field(default_factory=dict, exclude=True)
    """Variables of `env` whose value may come from this machine, as they are written: `${VAR:-default}`."""
    digest: str = ""
    """Covers every byte of `tests` and the settings above."""

    @field_serializer("env")
    def _without_values(self, env: dict[str, str]) -> dict[str, str]:
        """A value that came from this machine enters no record."""
        return env | {name: text for name, text in self.templates.items() if name in env}


class Solution(Record):
    """A reference solution, for `ht tasks oracle`."""

    path: Path = Field(exclude=True)
    """Directory uploaded to /solution; `solve.sh` is run (host path)."""
    timeout: float = 600.0
    env: dict[str, str] = Field(default_factory=dict)


class TaskStep(Record):
    """One of several steps of a task: the harness is started anew in the environment as the step before left it."""

    name: str
    """Unique within the task."""
    instruction: str
    verifier: Verifier
    timeout: float | None = None
    """Seconds of recorded time; None: the regime's."""
    files: Path | None = Field(default=None, exclude=True)
    """Directory laid into the working directory before the step (host path); its `setup.sh` is run there."""
    setup: bool = False
    """`files` has a setup.sh."""
    healthcheck: Healthcheck | None = None
    """What must succeed after that, before the harness is started."""
    min_reward: dict[str, float] = Field(default_factory=dict)
    """Rewards below these end the task after this step; the key `reward` is the step's own reward."""
    solution: Solution | None = None
    digest: str = ""
    """Covers all of the above but the solution."""


class Task(Record):
    """An instruction, an environment, a verifier, budgets."""

    name: str
    """Unique within a panel: the directory's name."""
    digest: str
    """Covers every byte that can influence the agent or the grade."""
    instruction: str
    """Of a task with steps: that of the first one; so are verifier, timeout and solution."""
    environment: Environment
    verifier: Verifier
    solution: Solution | None = None
    timeout: float | None = None
    """Seconds of recorded time an agent gets; None: the regime's."""
    pass_reward: float = 1.0
    """Solved means reward >= this."""
    pass_rewards: dict[str, float] = Field(default_factory=dict)
    """Solved means that each named reward reaches this; empty: `pass_reward` alone decides."""
    steps: tuple[TaskStep, ...] = ()
    """Empty: the task is one step."""
    strategy: Literal["mean", "final"] = "mean"
    """Reward of several steps: the mean over the steps that were graded, or that of the last one."""
    metadata: dict[str, str] = Field(default_factory=dict)
    """Difficulty, category, tags: for people."""

    def passes(self, grade: Grade) -> bool:
        """Whether a grade counts as solved."""
        if self.pass_rewards:
            return reaches(grade, self.pass_rewards)
        return grade.reward >= self.pass_reward

    def at(self, number: int) -> Task:
        """Step `number` (from 0) as a task of its own, in the environment of this one."""
        step = self.steps[number]
        changed = {
            "instruction": step.instruction,
            "verifier": step.verifier,
            "solution": step.solution,
            "timeout": step.timeout,
            "steps": (),
        }
        return self.model_copy(update=changed)

    @property
    def environments(self) -> tuple[Environment, ...]:
        """Every environment that measuring the task opens, its own first."""
        verifiers = [step.verifier for step in self.steps] or [self.verifier]
        others = {one.environment.digest: one.environment for one in verifiers if one.environment is not None}
        return (self.environment, *others.values())


def reaches(grade: Grade, least: dict[str, float]) -> bool:
    """Whether each named reward is there and at least so high.  The key `reward` is the grade's own reward."""
    rewards = {REWARD: grade.reward, **grade.rewards}
    return all(name in rewards and rewards[name] >= value for name, value in least.items())


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
