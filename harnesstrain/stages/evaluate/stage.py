"""The stage: drive what is missing, say what there is."""

from __future__ import annotations

import statistics

from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.core.registry import load as plugin
from harnesstrain.measure.context import Context
from harnesstrain.measure.driver import Driven, Driver, Subject
from harnesstrain.measure.plan import Plan, plan
from harnesstrain.stages.evaluate.alone import alone
from harnesstrain.stages.evaluate.identify import Identified, identify, remember
from harnesstrain.stages.evaluate.spec import Estimate, Evaluated, EvaluateSpec


def run(context: Context, spec: EvaluateSpec) -> Evaluated:
    """Measure what is missing.  A complete run is a no-op.

    Returns with `complete` False when a stop or a token budget left cells; the same spec resumes.  Waits while
    another process measures the same run.
    """
    identified = identify(context, spec)
    remember(context, identified)
    with alone(context, identified.run.id):
        return _measure(context, spec, identified)


def _measure(context: Context, spec: EvaluateSpec, identified: Identified) -> Evaluated:
    todo = _plan(context, spec, identified)
    driven = Driven(executed=0, stopped=False)
    context.bus.emit(
        "run.started",
        run=identified.run.id,
        commit=spec.commit,
        panel=identified.panel.name,
        split=identified.run.split,
        cells=todo.cells,
        done=todo.done,
    )
    if todo.missing:
        driven = _drive(context, spec, identified, todo)
    rollouts = latest_attempts(context.store.rollouts(identified.run.id))
    left = _plan(context, spec.model_copy(update={"retry_infra": False}), identified)
    if not left.missing and not context.store.is_complete(identified.run.id):
        context.store.complete_run(identified.run.id)
    evaluated = Evaluated(
        run=identified.run.id,
        commit=spec.commit,
        panel=identified.panel.name,
        split=identified.run.split,
        cells=left.cells,
        done=left.done,
        executed=driven.executed,
        solved=sum(rollout.solved for rollout in rollouts),
        infra=sum(not rollout.outcome.scorable for rollout in rollouts),
        tokens=driven.tokens,
    )
    context.bus.emit("run.finished", **evaluated.model_dump())
    return evaluated


def dry_run(context: Context, spec: EvaluateSpec) -> Estimate:
    """What `run` would do, from the plan and from the mean cost of past rollouts on the same tasks.  Writes nothing."""
    identified = identify(context, spec)
    todo = _plan(context, spec, identified)
    past = _past(context, identified)
    mean_tokens = statistics.fmean(r.usage.total for r in past) if past else None
    mean_seconds = statistics.fmean(r.recorded_time for r in past) if past else None
    jobs = context.devices.ceiling.of(spec.jobs or context.settings.measure.jobs, tell=False)
    return Estimate(
        run=identified.run.id,
        commit=spec.commit,
        panel=identified.panel.name,
        split=identified.run.split,
        cells=todo.cells,
        done=todo.done,
        to_run=len(todo.missing),
        tokens=None if mean_tokens is None else round(mean_tokens * len(todo.missing)),
        seconds=None if mean_seconds is None else round(mean_seconds * len(todo.missing) / jobs, 1),
    )


def _plan(context: Context, spec: EvaluateSpec, identified: Identified) -> Plan:
    return plan(
        list(identified.tasks),
        identified.run.seeds,
        context.store.rollouts(identified.run.id),
        retries=context.settings.measure.retries,
        retry_infra=spec.retry_infra,
    )


def _drive(context: Context, spec: EvaluateSpec, identified: Identified, todo: Plan) -> Driven:
    devices = context.devices
    devices.model.arm()
    jobs = devices.ceiling.of(spec.jobs or context.settings.measure.jobs)
    executor = plugin("executors", "local")(jobs)
    manifest = context.repo.version(spec.commit).manifest
    with context.repo.worktree(spec.commit) as worktree:
        driver = Driver(
            context.store,
            identified.run,
            identified.tasks,
            Subject(worktree=worktree, manifest=manifest),
            devices.bench,
            bus=context.bus,
            stop=context.stop,
            retries=context.settings.measure.retries,
            max_tokens=spec.max_tokens,
        )
        try:
            return driver.drive(todo, executor, jobs)
        finally:
            executor.close()


def _past(context: Context, identified: Identified) -> list[Rollout]:
    wanted = {task.digest for task in identified.tasks.values()}
    newest = list(context.store.runs())[-5:]
    return [r for one in newest for r in context.store.rollouts(one.id) if r.task_digest in wanted]
