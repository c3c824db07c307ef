"""One command four times, under a time budget that decides, with caches cold, warm, half-warm and warm again."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.records.rollout import Outcome
from harnesstrain.measure.project import open_context
from harnesstrain.stages import evaluate, judging
from harnesstrain.stages.evaluate import EvaluateSpec
from tests.project import Project

pytestmark = pytest.mark.local

HASTE = """
    if has("skills", name):
        ep.run("ls -l; sleep 0.01; cat *")
        ep.run("sleep 20" if name == "three" else "true")
"""
"""A last action that is too long for what is left, on one task."""


def halved(cache: Path, seed: int) -> int:
    """Remove a random half of every cache; returns how many entries went."""
    dice = random.Random(seed)
    removed = 0
    with sqlite3.connect(cache) as connection:
        for name in ("llm", "step", "verify"):
            rows = [seq for (seq,) in connection.execute(f"SELECT seq FROM {name} ORDER BY key")]
            gone = [(seq,) for seq in rows if dice.random() < 0.5]
            connection.executemany(f"DELETE FROM {name} WHERE seq = ?", gone)
            removed += len(gone)
    connection.close()
    return removed


def measured(made: Project, cand: str, salt: str) -> dict[str, Any]:
    """Evaluate baseline and candidate under a salt of its own, and judge."""
    context = open_context(made.settings(**{"budgets.time": 3.0}), environ=made.environment())
    with context:
        base = context.repo.head()
        runs = [evaluate.run(context, EvaluateSpec(commit=one, fresh=salt, jobs=2)).run for one in (base, cand)]
        verdict = judging.run(context, judging.JudgeSpec(base_run=runs[0], cand_run=runs[1]))
        rollouts = [one for run in runs for one in context.store.rollouts(run)]
        calls = context.devices.bench.model.counts().live
    context.store.close()
    clocks = {"recorded_time"}  # what is executed anew takes another time
    own = {"id": True, "base_run": True, "cand_run": True, "proven_unchanged": True, "base": clocks, "cand": clocks}
    facts = {(r.run == runs[0], r.task): (r.measurement, r.outcome, r.reason) for r in rollouts}
    return {
        "facts": facts,
        "verdict": verdict.model_dump(exclude=own),
        "ran": (calls, sum(r.executions for r in rollouts)),
    }


@pytest.mark.parametrize("seed", [1])
def test_the_same_verdict_and_the_same_records(project: Callable[..., Project], seed: int) -> None:
    made = project()
    agent = made.root / "agent" / "main.py"
    agent.write_text(
        agent.read_text().replace('    if has("skills", name) and', f'{HASTE}    if has("skills", name) and')
    )
    made.git("commit", "-qam", "Hurry")
    base = made.git("rev-parse", "HEAD")
    for name in ("two", "three"):
        (made.root / "agent" / "skills" / name).write_text("yes\n")
    made.git("add", "-A")
    made.git("commit", "-qm", "Two skills more")
    cand = made.git("rev-parse", "HEAD")
    made.git("reset", "-q", "--hard", base)
    cold = measured(made, cand, "cold")
    outcomes = sorted(f"{outcome}:{reason}" for _, outcome, reason in cold["facts"].values())
    assert f"{Outcome.NO_SUBMIT}:time_limit" in outcomes  # it is tight
    assert f"{Outcome.SOLVED}:None" in outcomes  # and not hopeless
    assert all(cold["ran"])
    warm = measured(made, cand, "warm")
    assert warm["ran"] == (0, 0)
    assert halved(made.root / ".ht" / "cache.db", seed) > 5
    half = measured(made, cand, "half")
    last = measured(made, cand, "last")
    assert last["ran"] == (0, 0)
    for other in (warm, half, last):
        assert other["facts"] == cold["facts"]
        assert other["verdict"] == cold["verdict"]
