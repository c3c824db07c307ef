"""The stage: drive what is missing, say what there is."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.core.records.run import MODEL_BOUND
from harnesstrain.core.registry import load as plugin
from harnesstrain.judge.base import Criterion
from harnesstrain.measure.context import Context
from harnesstrain.measure.driver import Driven, Driver, Subject
from harnesstrain.measure.plan import Plan, plan
from harnesstrain.measure.regimes import changed, earlier, in_words
from harnesstrain.stages.evaluate.alone import alone
from harnesstrain.stages.evaluate.early import Early, early
from harnesstrain.stages.evaluate.identify import Identified, identify, known, remember, traced
from harnesstrain.stages.evaluate.spec import Estimate, Evaluated, EvaluateSpec


def run(context: Context, spec: EvaluateSpec, criterion: Criterion | None = None) -> Evaluated:
    """Measure what is missing; with `spec.against`, only until the verdict against that baseline is decided.

    A complete run is a no-op.  One that was stopped early goes on where the verdict came open again, and is completed
    without `spec.against`.  `criterion`: whose verdict counts; default: the one the spec or the settings name.

    Returns with `complete` False when a stop or a token budget left cells; the same spec resumes.  Waits while
    another process measures the same run.
    """
    context.repo.version(spec.commit)  # one that is no harness leaves no run behind
    identified = identify(context, spec)
    _tell_of_another_regime(context, identified, named=spec.endpoint is not None)
    remember(context, identified)
    with alone(context, identified.run.id):
        return _measure(context, spec, identified, early(context, spec, identified, criterion))


def _measure(context: Context, spec: EvaluateSpec, identified: Identified, stops: Early | None) -> Evaluated:
    todo = _plan(context, spec, identified, stops, None if stops is not None else _spans(context, identified))
    driven = Driven(executed=0, stopped=False)
    context.bus.emit(
        "run.started",
        run=identified.run.id,
        commit=spec.commit,
        panel=identified.panel.name,
        split=identified.run.split,
        cells=todo.cells,
        done=todo.done,
        early_stop=stops is not None,
    )
    if todo.missing:
        driven = _drive(context, spec, identified, todo, stops)
    rollouts = latest_attempts(context.store.rollouts(identified.run.id))
    left = _plan(context, spec.model_copy(update={"retry_infra": False}), identified)
    not_needed = len(left.missing) if driven.settled else 0
    if left.done + not_needed == left.cells:
        _complete(context, identified, stops.against if stops is not None and not_needed else None)
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
        from_caches=sum(rollout.from_caches for rollout in rollouts),
        not_needed=not_needed,
        endpoint=spec.endpoint,
    )
    context.bus.emit("run.finished", **evaluated.model_dump())
    return evaluated


def _tell_of_another_regime(context: Context, identified: Identified, *, named: bool) -> None:
    """Warn where what was measured before is not comparable with what is measured now.

    `named`: the model was asked for by name; that it is another one is no news then.
    """
    before = earlier(context, identified.run)
    if before is None or before.imported is not None:
        return
    differing = changed(context, before)
    if named and set(differing) <= set(MODEL_BOUND):
        return
    context.bus.emit(
        "warning",
        f"another regime than of run {before.id[:8]}: {in_words(context, before, differing)}; "
        "earlier runs are not comparable",
    )


def dry_run(context: Context, spec: EvaluateSpec) -> Estimate:
    """What `run` would do, from the plan and from the mean cost of past rollouts on the same tasks.  Writes nothing."""
    context.repo.version(spec.commit)
    identified = identify(context, spec)
    begun = known(context, identified.run.id) is not None and context.store.is_complete(spec.against or "")
    stops = early(context, spec, identified, None) if begun else None
    todo = _plan(context, spec, identified, stops)
    missing = 0 if stops is not None and stops.decided() else len(todo.missing)
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
        to_run=missing,
        early_stop=spec.against not in (None, identified.run.id),
        tokens=None if mean_tokens is None else round(mean_tokens * missing),
        seconds=None if mean_seconds is None else round(mean_seconds * missing / jobs, 1),
        endpoint=spec.endpoint,
    )


def _complete(context: Context, identified: Identified, against: str | None) -> None:
    """Record that the run is complete: what it left out first, so that no moment has it wrong."""
    context.store.put_run(identified.run.model_copy(update={"early_stop_against": against}))
    if not context.store.is_complete(identified.run.id):
        context.store.complete_run(identified.run.id)


def _plan(
    context: Context,
    spec: EvaluateSpec,
    identified: Identified,
    stops: Early | None = None,
    spans: Mapping[str, float] | None = None,
) -> Plan:
    return plan(
        list(identified.tasks),
        identified.run.seeds,
        context.store.rollouts(identified.run.id),
        retries=context.settings.measure.retries,
        retry_infra=spec.retry_infra,
        order=stops.order if stops is not None else (),
        spans=spans,
    )


def _drive(context: Context, spec: EvaluateSpec, identified: Identified, todo: Plan, stops: Early | None) -> Driven:
    if stops is not None and stops.decided():
        return Driven(executed=0, stopped=False, settled=True)
    if stops is not None:  # what an earlier decision left out may be needed now
        context.store.put_run(identified.run)
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
            Subject(worktree=worktree, manifest=manifest, changes=traced(context, spec.commit)),
            devices.bench,
            bus=context.bus,
            stop=context.stop,
            retries=context.settings.measure.retries,
            max_tokens=spec.max_tokens,
        )
        try:
            return driver.drive(todo, executor, jobs, decided=stops.decided if stops is not None else None)
        finally:
            executor.close()


def _spans(context: Context, identified: Identified) -> dict[str, float]:
    """Mean recorded seconds of past rollouts, by task."""
    names = {task.digest: name for name, task in identified.tasks.items()}
    taken: dict[str, list[float]] = {}
    for rollout in _past(context, identified):
        taken.setdefault(names[rollout.task_digest], []).append(rollout.recorded_time)
    return {name: statistics.fmean(times) for name, times in taken.items()}


def _past(context: Context, identified: Identified) -> list[Rollout]:
    wanted = {task.digest for task in identified.tasks.values()}
    runs = list(context.store.runs())
    alike = [one for one in runs if one.regime == identified.run.regime]
    return [r for one in (alike or runs)[-5:] for r in context.store.rollouts(one.id) if r.task_digest in wanted]
