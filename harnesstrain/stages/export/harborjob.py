"""A job folder of Harbor, read: its configuration and the results of its trials.

    JOB/  config.json  result.json  lock.json?
      TRIAL/  result.json  lock.json?  agent/trajectory.json?  steps/NAME/agent/trajectory.json?

Keys that are not needed are left alone, so that other versions of Harbor can be read.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.base import Record

RESULT, CONFIG, LOCK = "result.json", "config.json", "lock.json"
MAX_BYTES = 512 << 20
"""Size of a file that is read, at most."""
SCHEMA = 1
"""Version of results that is read; what has none is read as this one."""
_HINT = "name the folder of a Harbor job: it has a config.json, a result.json and a folder for each trial"


class Loose(BaseModel):
    """A part of a result; unknown keys are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Timing(Loose):
    """When something ran."""

    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def seconds(self) -> float:
        """How long; 0 when it is not known."""
        if self.started_at is None or self.finished_at is None:
            return 0.0
        if (self.started_at.tzinfo is None) is not (self.finished_at.tzinfo is None):
            return 0.0
        return max(0.0, (self.finished_at - self.started_at).total_seconds())


class Policy(Loose):
    """What Harbor makes of an exception."""

    has_valid_reward: bool | None = None


class ExceptionInfo(Loose):
    """Why a trial ended early."""

    exception_type: str
    exception_message: str = ""
    policy: Policy | None = None


class ModelInfo(Loose):
    """The model an agent asked."""

    name: str
    provider: str | None = None

    @property
    def full(self) -> str:
        """`provider/name`."""
        return f"{self.provider}/{self.name}" if self.provider else self.name


class AgentInfo(Loose):
    """The agent."""

    name: str
    version: str
    model_info: ModelInfo | None = None


class AgentResult(Loose):
    """What the agent spent."""

    n_input_tokens: int | None = None
    """Cached ones included."""
    n_cache_tokens: int | None = None
    n_output_tokens: int | None = None


class VerifierResult(Loose):
    """What the verifier said."""

    rewards: dict[str, Any] | None = None

    @field_validator("rewards")
    @classmethod
    def _plain(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return value or None

    @property
    def finite(self) -> dict[str, float] | None:
        """The rewards as numbers; None when there are none, or something else stands there."""
        found = self.rewards or {}
        numbers = {k: float(v) for k, v in found.items() if isinstance(v, int | float)}
        return numbers if found and len(numbers) == len(found) and all(map(math.isfinite, numbers.values())) else None


class StepResult(Loose):
    """One step of a trial."""

    step_name: str
    agent_result: AgentResult | None = None
    verifier_result: VerifierResult | None = None
    exception_info: ExceptionInfo | None = None
    agent_execution: Timing | None = None


class TrialResult(Loose):
    """One trial's result.json."""

    trial_name: str
    task_name: str
    task_id: dict[str, Any] = Field(default_factory=dict)
    source: str | None = None
    task_checksum: str
    config: dict[str, Any] = Field(default_factory=dict)
    agent_info: AgentInfo
    agent_result: AgentResult | None = None
    verifier_result: VerifierResult | None = None
    exception_info: ExceptionInfo | None = None
    started_at: datetime | None = None
    agent_execution: Timing | None = None
    step_results: tuple[StepResult, ...] | None = None
    reward_valid: bool | None = None

    @property
    def steps(self) -> tuple[StepResult, ...]:
        """The steps of a task that has several."""
        return self.step_results or ()

    @property
    def agent_ran(self) -> bool:
        """Whether the agent was started."""
        parts = (self.agent_execution, *(step.agent_execution for step in self.steps))
        return any(part is not None for part in parts)

    @property
    def agent_seconds(self) -> float:
        """How long the agent worked."""
        parts = (self.agent_execution, *(step.agent_execution for step in self.steps))
        return sum(part.seconds for part in parts if part is not None)


class JobResult(Loose):
    """The job's result.json."""

    id: str
    finished_at: str | None = None
    n_total_trials: int | None = None


class Trial(Record):
    """One trial."""

    folder: Path
    result: TrialResult
    task: str
    """The folder's name of its task, or its full name when it has none."""
    digest: str
    """Of the task (64 hex, or what Harbor wrote)."""

    @property
    def trajectories(self) -> tuple[Path, ...]:
        """Where the agent's trajectories are, in order."""
        steps = [self.folder / "steps" / step.step_name for step in self.result.steps]
        places = [folder / "agent" / "trajectory.json" for folder in (steps or [self.folder])]
        return tuple(path for path in places if path.is_file())


class Job(Record):
    """A job."""

    folder: Path
    id: str
    name: str
    config: dict[str, Any]
    program: str
    """Version of Harbor; empty when it is not known."""
    trials: tuple[Trial, ...]
    """In order of their start."""
    unread: tuple[str, ...]
    """Folders of trials that have no result yet."""

    @property
    def dataset(self) -> str:
        """What the job's tasks are called together."""
        named = [one for one in self.config.get("datasets") or () if isinstance(one, dict)]
        names = [str(one.get("name") or PurePosixPath(str(one.get("path") or "")).name) for one in named]
        return "+".join(name for name in names if name) or self.name


def read_job(folder: Path) -> Job:
    """A job folder.  Raises ConfigError."""
    folder = folder.absolute()
    if not folder.is_dir():
        raise ConfigError(f"no such folder: {folder}", hint=_HINT)
    if not (folder / RESULT).is_file() or not (folder / CONFIG).is_file():
        raise _no_job(folder)
    table = _table(folder / RESULT)
    if "trial_name" in table:
        raise ConfigError(f"{folder} is one trial", hint=f"name its job: {folder.parent}")
    _check_version(table, folder / RESULT)
    result = _checked(JobResult, table, folder / RESULT)
    config = _table(folder / CONFIG)
    trials: list[Trial] = []
    unread: list[str] = []
    for path in sorted(folder.iterdir()):
        if (path / RESULT).is_file():
            trials.append(_trial(path))
        elif (path / CONFIG).is_file():
            unread.append(path.name)
    if result.finished_at is None and result.n_total_trials != len(trials):
        made = f"{len(trials)} of {result.n_total_trials or 'its'} trials have a result"
        msg = f"job {folder.name} has not finished: {made}"
        raise ConfigError(msg, hint="let Harbor finish it; `harbor job resume` goes on with one that was stopped")
    if not trials:
        raise ConfigError(f"{folder} has no finished trial", hint=_HINT)
    trials.sort(key=lambda one: (str(one.result.started_at or ""), one.result.trial_name))
    lock = _table(folder / LOCK) if (folder / LOCK).is_file() else {}
    program = lock.get("harbor")
    return Job(
        folder=folder,
        id=result.id,
        name=str(config.get("job_name") or folder.name),
        config=config,
        program=str(program.get("version") or "") if isinstance(program, dict) else "",
        trials=tuple(trials),
        unread=tuple(unread),
    )


def _trial(folder: Path) -> Trial:
    table = _table(folder / RESULT)
    _check_version(table, folder / RESULT)
    result = _checked(TrialResult, table, folder / RESULT)
    path = result.task_id.get("path")
    task = PurePosixPath(path).name if isinstance(path, str) and path else result.task_name
    lock = _table(folder / LOCK) if (folder / LOCK).is_file() else {}
    locked = lock.get("task")
    digest = locked.get("digest") if isinstance(locked, dict) else None
    return Trial(
        folder=folder,
        result=result,
        task=task or result.task_name,
        digest=str(digest or result.task_checksum).removeprefix("sha256:"),
    )


def _check_version(table: dict[str, Any], path: Path) -> None:
    if table.get("schema_version", SCHEMA) != SCHEMA:
        msg = f"{path}: schema_version {str(table['schema_version'])[:20]} is not known"
        raise ConfigError(msg, hint=f"version {SCHEMA} is read")


def _no_job(folder: Path) -> ConfigError:
    jobs = [path.name for path in sorted(folder.iterdir()) if (path / RESULT).is_file() and (path / CONFIG).is_file()]
    missing = [name for name in (RESULT, CONFIG) if not (folder / name).is_file()]
    hint = f"it holds jobs; name one: {', '.join(jobs[:3])}{' …' if len(jobs) > 3 else ''}" if jobs else _HINT
    return ConfigError(f"{folder} is no Harbor job: {' and '.join(missing)} missing", hint=hint)


def _table(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} has more than {MAX_BYTES} bytes", hint=_HINT)
        found = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="check the file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8", hint=_HINT) from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: not JSON", hint="it may be cut short; let the job finish") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: not a JSON object", hint=_HINT)
    return found


Part = TypeVar("Part", bound=Loose)


def _checked(kind: type[Part], table: dict[str, Any], path: Path) -> Part:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path}: {place}: {str(first['msg']).lower()}", hint=_HINT) from None
