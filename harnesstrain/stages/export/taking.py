"""Runs of other programs into the store, to be compared among each other.

A job of Harbor becomes one run for each agent in it.  Its regime holds what the job's configuration says of the
environment, the verifier and the time limits: runs of jobs that differ there are not comparable, and nothing that was
measured here ever is with them.  An agent has no commit; a digest of its name, version and settings stands for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import ConfigError, NotFound, UsageError
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Endpoint, Sampling, Usage
from harnesstrain.core.records.rollout import Rollout, Trace, latest_attempts
from harnesstrain.core.records.run import IMPORTED, Budgets, Imported, Regime, Run
from harnesstrain.core.records.sandbox import SandboxIdentity
from harnesstrain.core.records.task import Panel, PanelTask
from harnesstrain.stages.export.atif import read_trajectory_file
from harnesstrain.stages.export.endings import ending_of
from harnesstrain.stages.export.harborjob import Job, Trial, TrialResult, read_job
from harnesstrain.stages.export.reading import Told, trace_of
from harnesstrain.store import Store

HARBOR = "harbor"
"""The program."""
UNNAMED = "unnamed"
MEASURES = (
    "environment",
    "verifier",
    "timeout_multiplier",
    "agent_timeout_multiplier",
    "verifier_timeout_multiplier",
    "agent_setup_timeout_multiplier",
    "environment_build_timeout_multiplier",
    "override_error_policy",
    "install_only",
    "artifacts",
    "extra_instruction_paths",
    "extra_instructions",
)
"""Keys of a job's configuration that enter the regime."""
AGENT_MEASURES = ("override_timeout_sec", "override_setup_timeout_sec", "max_timeout_sec", "extra_allowed_hosts")
"""Keys of an agent's configuration that enter the regime."""
AGENT_IS = ("import_path", "kwargs", "skills", "mcp_servers", "resume_trajectory", "load_trajectory", "base_url")
"""Keys of an agent's configuration that are part of its version."""


class TakeSpec(Record):
    """What is imported."""

    jobs: tuple[Path, ...]
    """Several: of each only the tasks and attempts that all have, so that they can be compared."""
    include: tuple[str, ...] = ()
    """Globs of tasks; none: every task."""
    exclude: tuple[str, ...] = ()
    dry_run: bool = False
    """Say what would be recorded; write nothing."""


class Taken(Record):
    """One run that was imported."""

    run: str
    job: str
    """Name of the job."""
    agent: str
    version: str
    model: str | None
    regime: str
    panel: str
    tasks: int
    attempts: int
    cells: int
    recorded: int
    """Rollouts that were not in the store before; of a dry run, those that would be recorded."""
    solved: int
    infra: int
    notes: tuple[str, ...] = ()
    """What a reader should know: trials without a result, unreadable trajectories, what other jobs lack."""


class _Part(Record):
    """The trials of one agent in a job."""

    job: Job
    trials: tuple[Trial, ...]

    @property
    def cells(self) -> dict[tuple[str, str], tuple[Trial, ...]]:
        """Trials by task and its digest, in order of their start."""
        found: dict[tuple[str, str], list[Trial]] = {}
        for trial in self.trials:
            found.setdefault((trial.task, trial.digest), []).append(trial)
        return {key: tuple(trials) for key, trials in sorted(found.items())}


def take(store: Store, spec: TakeSpec) -> tuple[Taken, ...]:
    """Import jobs; doing it again changes nothing.

    Raises ConfigError (a folder is no job, a trial cannot be read), UsageError (globs, nothing in common).
    """
    parts = [part for folder in spec.jobs for part in _parts(read_job(folder))]
    names = {task for part in parts for task, _ in part.cells}
    for pattern in (*spec.include, *spec.exclude):
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"'{pattern}' matches no task of the job", hint=f"tasks: {', '.join(sorted(names)[:5])}")
    common = set.intersection(*(set(part.cells) for part in parts)) if len(spec.jobs) > 1 else None
    chosen = [
        {
            key: trials
            for key, trials in part.cells.items()
            if (common is None or key in common) and _wanted(key[0], spec)
        }
        for part in parts
    ]
    if not all(chosen):
        raise UsageError("no task is left", hint="jobs that are imported together need tasks in common")
    most = [max(len(trials) for trials in cells.values()) for cells in chosen]
    if common is not None:
        most = [min(len(trials) for cells in chosen for trials in cells.values())] * len(most)
    return tuple(
        _Import(store, part, cells, attempts, _cut(part, cells, attempts, spec)).run(dry_run=spec.dry_run)
        for part, cells, attempts in zip(parts, chosen, most, strict=True)
    )


def _cut(part: _Part, cells: Mapping[tuple[str, str], Sequence[Trial]], attempts: int, spec: TakeSpec) -> Iterator[str]:
    """What is left out of a part because other jobs lack it, for people."""
    lacking = sorted(task for task, found in part.cells if (task, found) not in cells and _wanted(task, spec))
    if lacking:
        shown = ", ".join(lacking[:5]) + (" …" if len(lacking) > 5 else "")
        number = f"{len(lacking)} task{'s' if len(lacking) > 1 else ''}"
        yield f"{part.job.name}: {number} left out, not in every job in the same version: {shown}"
    more = sum(max(0, len(trials) - attempts) for trials in cells.values())
    if more:
        number = f"{more} attempt{'s' if more > 1 else ''}"
        yield f"{part.job.name}: {number} left out, every job has {attempts} of each task"


def _parts(job: Job) -> Iterator[_Part]:
    trials = sorted(job.trials, key=lambda trial: _who(trial.result))
    for _, group in groupby(trials, key=lambda trial: _who(trial.result)):
        yield _Part(job=job, trials=tuple(group))


def _wanted(task: str, spec: TakeSpec) -> bool:
    included = not spec.include or any(fnmatchcase(task, pattern) for pattern in spec.include)
    return included and not any(fnmatchcase(task, pattern) for pattern in spec.exclude)


def _agent(trial: TrialResult) -> Mapping[str, Any]:
    found = trial.config.get("agent")
    return found if isinstance(found, dict) else {}


def _who(trial: TrialResult) -> str:
    """The digest that stands for an agent's commit."""
    info = trial.agent_info
    settings = {key: value for key in AGENT_IS if (value := _agent(trial).get(key))}
    model = info.model_info.full if info.model_info else None
    told = {"program": HARBOR, "agent": info.name, "version": info.version, "model": model, "settings": settings}
    return digest(told)[:40]


class _Import:
    """One run on its way into the store."""

    def __init__(
        self,
        store: Store,
        part: _Part,
        cells: Mapping[tuple[str, str], Sequence[Trial]],
        attempts: int,
        notes: Iterator[str],
    ) -> None:
        self._store, self._job, self._cells = store, part.job, cells
        first = part.trials[0].result
        info = first.agent_info
        self._model = info.model_info.full if info.model_info else None
        self._endpoint = Endpoint(
            engine=IMPORTED, model=self._model or UNNAMED, context_length=0, identity={"program": HARBOR}
        )
        self._regime = self._measured(first)
        tasks = tuple(PanelTask(name=name, digest=found) for name, found in cells)
        if len({task.name for task in tasks}) < len(tasks):
            msg = f"job {part.job.name} has one task in two versions"
            raise ConfigError(msg, hint="import it with --exclude for that task")
        self._panel = Panel(name=part.job.dataset, tasks=tasks)
        seeds = tuple(range(1, attempts + 1))
        commit, salt = _who(first), f"{HARBOR}:{part.job.id}"
        self._run = Run(
            id=Run.identify(commit, self._panel.digest, self._regime.digest, seeds, salt),
            commit=commit,
            panel=self._panel.digest,
            panel_name=f"{IMPORTED}:{self._panel.name}",
            regime=self._regime.digest,
            seeds=seeds,
            salt=salt,
            imported=Imported(
                program=HARBOR,
                job=part.job.id,
                name=part.job.name,
                agent=info.name,
                version=info.version,
                model=self._model,
            ),
        )
        self._notes = [*notes, *(f"{name} has no result yet" for name in part.job.unread)]

    def run(self, *, dry_run: bool) -> Taken:
        """Import it."""
        seeds = self._run.seeds
        cells = [(trial, seed) for trials in self._cells.values() for seed, trial in zip(seeds, trials, strict=False)]
        made = [self._rollout(trial, seed) for trial, seed in cells]
        missing = len(self._cells) * len(seeds) - len(cells)
        if missing:
            self._notes.append(f"{missing} of {len(self._cells) * len(seeds)} attempts were not made")
        if dry_run:
            recorded = len(self._fresh(made))
        else:
            with self._store.lease(f"run {self._run.id[:16]}"):
                recorded = self._record(made)
        imported = self._run.imported
        assert imported is not None
        return Taken(
            run=self._run.id,
            job=self._job.name,
            agent=imported.agent,
            version=imported.version,
            model=self._model,
            regime=self._run.regime,
            panel=self._panel.name,
            tasks=len(self._cells),
            attempts=len(seeds),
            cells=len(cells),
            recorded=recorded,
            solved=sum(rollout.solved for rollout, _ in made),
            infra=sum(not rollout.outcome.scorable for rollout, _ in made),
            notes=tuple(self._notes),
        )

    def _record(self, made: Sequence[tuple[Rollout, Trace | None]]) -> int:
        store = self._store
        fresh = self._fresh(made)
        store.put_endpoint(self._endpoint)
        store.put_regime(self._regime)
        try:
            store.panel(self._panel.digest)
        except NotFound:
            store.put_panel(self._panel)
        store.put_run(self._run)
        for rollout, told in fresh:
            store.commit_rollout(rollout, told)
        if not store.is_complete(self._run.id):
            store.complete_run(self._run.id)
        return len(fresh)

    def _fresh(self, made: Sequence[tuple[Rollout, Trace | None]]) -> list[tuple[Rollout, Trace | None]]:
        """What is not in the store.  Raises ConfigError where a measurement there is another one now."""
        before = {(one.task, one.seed): one for one in latest_attempts(self._store.rollouts(self._run.id))}
        found: list[tuple[Rollout, Trace | None]] = []
        for rollout, told in made:
            known = before.get((rollout.task, rollout.seed))
            if known is not None and known.measurement == rollout.measurement:
                continue
            if known is not None and known.outcome.scorable:
                msg = (
                    f"{rollout.task}, attempt {rollout.seed}, of job {self._job.name} was another when it was imported"
                )
                raise ConfigError(msg, hint=f"the folder has changed; run {short(self._run.id)} is what it was")
            if known is not None:  # the trial was made again
                attempt = known.attempt + 1
                identifier = self._run.rollout_id(rollout.task, rollout.seed, attempt)
                again = rollout.model_copy(update={"id": identifier, "attempt": attempt})
                trace = told.model_copy(update={"rollout": identifier}) if told is not None else None
                found.append((again, trace))
            else:
                found.append((rollout, told))
        return found

    def _measured(self, trial: TrialResult) -> Regime:
        config = self._job.config
        settings = {key: value for key in MEASURES if (value := config.get(key))}
        agent = {key: value for key in AGENT_MEASURES if (value := _agent(trial).get(key))}
        return Regime(
            endpoint=self._endpoint.fingerprint,
            deterministic=False,
            sampling=Sampling(),
            context_length=0,
            sandbox=SandboxIdentity(
                kind=HARBOR, image=_digest({"job": settings, "agent": agent}, self._job), pins=self._job.program
            ),
            budgets=Budgets(steps=0, actions=0, tokens=0, time=0),
            grading=IMPORTED,
        )

    def _rollout(self, trial: Trial, seed: int) -> tuple[Rollout, Trace | None]:
        identifier = self._run.rollout_id(trial.task, seed)
        told = self._told(trial, identifier)
        ending = ending_of(trial.result)
        rollout = Rollout(
            id=identifier,
            run=self._run.id,
            task=trial.task,
            task_digest=trial.digest,
            seed=seed,
            outcome=ending.outcome,
            reason=ending.reason,
            detail=ending.detail,
            reward=ending.reward,
            rewards=ending.rewards,
            llm_calls=told.llm_calls if told else 0,
            actions=told.actions if told else 0,
            usage=_spent(trial.result) or (told.usage if told else Usage()),
            recorded_time=round(trial.result.agent_seconds, 6),
        )
        return rollout, told.trace if told else None

    def _told(self, trial: Trial, rollout: str) -> Told | None:
        paths = trial.trajectories
        if not paths:
            return None
        try:
            return trace_of(rollout, [read_trajectory_file(path) for path in paths])
        except ConfigError as error:
            self._notes.append(f"no trace of {trial.result.trial_name}: {error.message}")
            return None


def _digest(value: Any, job: Job) -> str:
    try:
        return digest(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{job.folder}: its configuration is not plain JSON", hint="check config.json") from None


def _spent(trial: TrialResult) -> Usage | None:
    """What the agent says it spent; None when it says nothing."""
    parts = [one for one in (trial.agent_result, *(step.agent_result for step in trial.steps)) if one is not None]
    if all(part.n_input_tokens is None and part.n_output_tokens is None for part in parts):
        return None
    return Usage(
        prompt=sum(part.n_input_tokens or 0 for part in parts),
        cached=sum(part.n_cache_tokens or 0 for part in parts),
        completion=sum(part.n_output_tokens or 0 for part in parts),
    )
