"""Commit + panel + regime + seeds → the run, and the records it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harnesstrain.core.errors import ConfigError, NotFound, Unsupported
from harnesstrain.core.records.harness import Changes
from harnesstrain.core.records.run import CONFIGURED, Run
from harnesstrain.core.records.task import Panel, Task
from harnesstrain.measure.context import Context
from harnesstrain.measure.resuming import given
from harnesstrain.stages.evaluate.spec import EvaluateSpec
from harnesstrain.taskset import allowed, load_panel, needs_of_host, with_host

ALL = "all"
"""The split that means every split but sealed."""


@dataclass(frozen=True)
class Identified:
    """A run, its panel and its tasks in panel order."""

    run: Run
    panel: Panel
    tasks: Mapping[str, Task]


def identify(context: Context, spec: EvaluateSpec) -> Identified:
    """Resolve a spec.  Raises ConfigError (bad or empty panel), Prerequisite (no model, no sandbox), Unsupported."""
    loaded = load_panel(spec.panel or context.settings.panel.chosen, context.settings.root)
    split = spec.split or context.settings.panel.split
    chosen = loaded.select(
        split=None if split == ALL else split, include=list(spec.include), exclude=list(spec.exclude)
    )
    if not chosen.panel.tasks:
        msg = f"panel '{loaded.panel.name}' has no task in split '{split}' that the globs leave"
        raise ConfigError(msg, hint="`ht tasks list` shows the tasks and their splits")
    devices = context.devices
    host = allowed(context.settings.sandbox.verifier_env, context.environ)
    for name, task in chosen.tasks.items():
        try:
            needs_of_host(task, host)
            for environment in task.environments:
                devices.bench.sandbox.check(environment)
        except (Unsupported, ConfigError) as error:
            msg = f"task '{name}': {error.message}"
            without = f"`--exclude {name}` leaves it out"
            raise type(error)(msg, hint=f"{error.hint}; {without}" if error.hint else without, **error.extra) from error
    seeds = tuple(range(1, spec.seeds + 1))
    regime = devices.bench.regime
    id = Run.identify(spec.commit, chosen.panel.digest, regime.digest, seeds, spec.fresh)
    run = Run(
        id=id,
        commit=spec.commit,
        panel=chosen.panel.digest,
        panel_name=chosen.panel.name,
        split=None if split == ALL else split,
        regime=regime.digest,
        seeds=seeds,
        salt=spec.fresh,
        asked_as=_names(known(context, id), spec.endpoint),
        include=spec.include,
        exclude=spec.exclude,
        given=given(context, model=spec.endpoint is None),
    )
    return Identified(
        run=run, panel=chosen.panel, tasks={name: with_host(task, host) for name, task in chosen.tasks.items()}
    )


def known(context: Context, run: str) -> Run | None:
    """The recorded run of an id."""
    try:
        return context.store.run(run)
    except NotFound:
        return None


def _names(before: Run | None, name: str | None) -> tuple[str, ...]:
    """How a run's model was named so far, and now; empty while it was the configured one only."""
    old = (before.asked_as or (CONFIGURED,)) if before is not None else ()
    names = tuple(dict.fromkeys((*old, name or CONFIGURED)))
    return () if names == (CONFIGURED,) else names


def remember(context: Context, identified: Identified) -> None:
    """Write the records that the run names, then the run, if it is new or has a new name for its model.

    Writing them again changes nothing.
    """
    context.store.put_endpoint(context.devices.endpoint)
    context.store.put_regime(context.devices.bench.regime)
    for task in identified.tasks.values():
        context.store.put_task(task)
    context.store.put_panel(identified.panel)
    before = known(context, identified.run.id)
    if before is None:
        context.store.put_run(identified.run)
    elif before.asked_as != identified.run.asked_as:
        context.store.put_run(before.model_copy(update={"asked_as": identified.run.asked_as}))
    context.repo.set_ref(f"runs/{identified.run.id[:16]}", identified.run.commit)


def traced(context: Context, commit: str) -> Changes | None:
    """What to watch while a version runs: its difference to its candidate's base, else to its only parent."""
    bases = [one.base for one in context.store.candidates() if one.commit == commit] or context.repo.parents(commit)
    return context.repo.changed_lines(bases[-1], commit) if len(set(bases)) == 1 else None
