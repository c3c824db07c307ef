"""Records for judge tests: two comparable runs and rollouts with any outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harnesstrain.core.digests import digest
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.core.records.run import Run
from harnesstrain.judge import Comparison, compare

REGIME = digest("regime")
PANEL = digest("panel")


def run(commit: str, *, seeds: tuple[int, ...] = (1,), **changes: Any) -> Run:
    values: dict[str, Any] = {"panel": PANEL, "panel_name": "quick", "split": "train", "regime": REGIME, "salt": ""}
    values.update(changes)
    identifier = Run.identify(commit, values["panel"], values["regime"], seeds, values["salt"])
    return Run(id=identifier, commit=commit, seeds=seeds, **values)


def rollout(of: Run, task: str, outcome: str = "solved", *, seed: int = 1, **changes: Any) -> Rollout:
    kind, _, reason = outcome.partition(":")
    values: dict[str, Any] = {
        "llm_calls": 4,
        "actions": 3,
        "usage": Usage(prompt=900, completion=100),
        "recorded_time": 2.0,
        "chain_digest": digest(["chain", of.commit, task]),
        "requests_digest": digest(["requests", of.commit, task]),
        "reward": 1.0 if kind == "solved" else 0.0,
    }
    values.update(changes)
    attempt = values.get("attempt", 1)
    return Rollout(
        id=of.rollout_id(task, seed, attempt),
        run=of.id,
        task=task,
        task_digest=digest(task),
        seed=seed,
        outcome=Outcome(kind),
        reason=reason or None,
        **values,
    )


def certificate(of: Rollout, result: str = "exact", **changes: Any) -> Certificate:
    values: dict[str, Any] = {
        "regime": REGIME,
        "task": of.task,
        "task_digest": of.task_digest,
        "seed": of.seed,
        "chain": of.chain_digest,
    }
    values.update(changes)
    return Certificate(id=digest([values, result]), kind="env", run=of.run, result=Certified(result), **values)


BASE = run("b" * 40)
CAND = run("c" * 40)


def compared(base: Mapping[str, str], cand: Mapping[str, str], **options: Any) -> Comparison:
    """A comparison from outcomes by task.  A task absent on one side was not measured there."""
    names = list(dict.fromkeys([*base, *cand]))
    return compare(
        BASE,
        CAND,
        [rollout(BASE, task, outcome) for task, outcome in base.items()],
        [rollout(CAND, task, outcome) for task, outcome in cand.items()],
        tasks=names,
        **options,
    )
