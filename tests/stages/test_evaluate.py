"""The evaluate stage on a real project: the same command is the same run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harnesstrain.core.errors import ConfigError, HtError, Incomplete, Unsupported
from harnesstrain.core.events import Bus, Event
from harnesstrain.core.records.llm import LlmRequest
from harnesstrain.measure.context import Context
from harnesstrain.measure.project import open_context
from harnesstrain.stages import evaluate
from harnesstrain.stages.evaluate import EvaluateSpec
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]


@contextmanager
def opened(project: Project, bus: Bus | None = None, **flags: Any) -> Iterator[Context]:
    """The project's context."""
    context = open_context(project.settings(**flags), environ=project.environment(), bus=bus)
    with context:
        yield context
    context.store.close()


class Seen:
    """Remembers events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)


def test_the_same_command_is_the_same_run(project: Make) -> None:
    made = project()
    with opened(made) as context:
        commit = context.repo.head()
        first = evaluate.run(context, EvaluateSpec(commit=commit))
        assert (first.cells, first.done, first.executed, first.solved, first.infra) == (3, 3, 3, 1, 0)
        assert first.complete
        assert first.tokens > 0
    with opened(made) as context:
        again = evaluate.run(context, EvaluateSpec(commit=commit))
        assert (again.run, again.executed, again.solved, again.tokens) == (first.run, 0, 1, 0)
        assert context.repo.refs("runs") == {f"runs/{first.run[:16]}": commit}
        other = evaluate.run(context, EvaluateSpec(commit=commit, fresh="salt"))
        assert (other.run != first.run, other.executed) == (True, 3)
        assert sum(r.llm_cached for r in context.store.rollouts(other.run)) == 6
        seeds = evaluate.run(context, EvaluateSpec(commit=commit, seeds=2, include=("one",)))
        assert sorted(r.seed for r in context.store.rollouts(seeds.run)) == [1, 2]


def test_what_is_missing_is_measured(project: Make) -> None:
    made = project()
    with opened(made) as context:
        commit = context.repo.head()
        part = evaluate.run(context, EvaluateSpec(commit=commit, max_tokens=1, jobs=1))
        assert (part.done, part.complete) == (1, False)
        assert not context.store.is_complete(part.run)
        rest = evaluate.run(context, EvaluateSpec(commit=commit))
        assert (rest.run, rest.executed, rest.complete) == (part.run, 2, True)
        assert context.store.is_complete(rest.run)


def test_infrastructure_can_be_tried_once_more(project: Make) -> None:
    made = project(tasks=("one",))
    made.rules('{"error": "transport", "message": "gone"}\n')
    with opened(made) as context:
        spec = EvaluateSpec(commit=context.repo.head())
        done = evaluate.run(context, spec)
        assert (done.executed, done.infra, done.complete) == (2, 1, True)
        assert evaluate.run(context, spec).executed == 0
        assert evaluate.run(context, spec.model_copy(update={"retry_infra": True})).executed == 1
        attempts = [rollout.attempt for rollout in context.store.rollouts(done.run)]
        assert attempts == [1, 2, 3]


def test_a_dry_run_knows_what_it_would_cost(project: Make) -> None:
    with opened(project()) as context:
        spec = EvaluateSpec(commit=context.repo.head())
        blind = evaluate.dry_run(context, spec)
        assert (blind.cells, blind.to_run, blind.tokens, blind.seconds) == (3, 3, None, None)
        assert context.store.runs() == []
        done = evaluate.run(context, spec)
        known = evaluate.dry_run(context, spec.model_copy(update={"fresh": "x", "jobs": 1}))
        assert known.tokens == done.tokens
        assert known.seconds == pytest.approx(6.0, abs=0.5)  # two seconds of model a task, as recorded
        assert evaluate.dry_run(context, spec).to_run == 0


def test_a_run_that_somebody_else_measures_is_waited_for(project: Make) -> None:
    made = project()
    seen = Seen()
    with opened(made) as one, opened(made, Bus(seen)) as other:
        spec = EvaluateSpec(commit=one.repo.head())
        run = evaluate.dry_run(one, spec).run
        results = []
        with one.store.lease(f"run {run[:16]}"):
            waiting = threading.Thread(target=lambda: results.append(evaluate.run(other, spec)))
            waiting.start()
            while not any(event.kind == "run.waiting" for event in seen.events):
                waiting.join(0.05)
                assert waiting.is_alive()
            assert [event.kind for event in seen.events if event.kind == "rollout.started"] == []
        waiting.join(60)
        assert [result.complete for result in results] == [True]
        stopped = threading.Event()
        stopped.set()
        other.stop = stopped
        with one.store.lease(f"run {run[:16]}"), pytest.raises(Incomplete, match="another process measures run"):
            evaluate.run(other, spec)


def test_what_cannot_be_measured_is_said_before_anything_starts(project: Make) -> None:
    made = project()
    docker = made.root / "tasks" / "two" / "environment" / "Dockerfile"
    docker.write_text("FROM python:3.11-slim\nADD https://example.org/x /x\n")
    with opened(made) as context:
        spec = EvaluateSpec(commit=context.repo.head())
        with pytest.raises(Unsupported):
            evaluate.run(context, spec)
        assert context.store.runs() == []
        assert evaluate.run(context, spec.model_copy(update={"exclude": ("two",)})).complete
        with pytest.raises(ConfigError):
            evaluate.run(context, spec.model_copy(update={"split": "holdout"}))


def test_the_regime_is_what_the_settings_say(project: Make) -> None:
    made = project(tasks=("one",))
    runs = []
    for flags in ({}, {"measure.jobs": 1}, {"llm.sampling.max_tokens": 7}, {"budgets.steps": 3}, {"llm.deadline": 9.0}):
        with opened(made, **flags) as context:
            runs.append(evaluate.dry_run(context, EvaluateSpec(commit=context.repo.head())).run)
    same, jobs, sampling, budgets, deadline = runs
    assert same == jobs == deadline  # how it is measured, not what
    assert len({same, sampling, budgets}) == 3


def test_devices_open_once_and_close(project: Make) -> None:
    with opened(project()) as context:
        devices = context.devices
        assert context.devices is devices
        context.close()
        with pytest.raises(HtError):
            devices.bench.model.complete(LlmRequest(messages=({"role": "user", "content": "x"},)))


def test_what_took_longest_before_starts_first(project: Make) -> None:
    seen = Seen()
    with opened(project(), Bus(seen)) as context:
        commit = context.repo.head()
        for number, task in enumerate(("two", "three", "one")):
            left = evaluate.run(context, EvaluateSpec(commit=commit, include=(task,), fresh=str(number)))
            (rollout,) = context.store.rollouts(left.run)
            changed = rollout.model_copy(update={"attempt": 2, "id": f"{number}" * 64, "recorded_time": 10.0 + number})
            context.store.commit_rollout(changed, None)
        seen.events.clear()
        evaluate.run(context, EvaluateSpec(commit=commit, jobs=1, fresh="again"))
        started = [event.data["task"] for event in seen.events if event.kind == "rollout.started"]
        assert started == ["one", "three", "two"]
