"""Several commands at once on one store, and the same command from cold, warm and half-warm caches."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]


def test_evaluate_epoch_and_report_at_once(project: Make) -> None:
    """R2: no error, no lost row; who wants the same run waits for it."""
    patches = {"01": "agent/skills/one", "02": "agent/broken/two"}
    made = project(patches=patches)
    made.rules('{"reply": "ok", "duration": 1.0, "delay": 0.05}\n')
    writers = [("epoch", "--n", "2", "--exhaustive"), ("evaluate",), ("evaluate",), ("evaluate", "--fresh", "mine")]
    running = [made.start(*command, HT_JOBS="2", HT_PROGRESS="plain") for command in writers]
    said = []
    assert running[0].stderr is not None
    for line in running[0].stderr:
        said.append(line)
        if "of 3 solved" in line:  # there is something to look at, and the loop goes on
            break
    running += [made.start(*command) for command in (("report",), ("log",), ("status",), ("report", "--json"))]
    ended = [(process.communicate(timeout=200)[1], process.returncode) for process in running]
    assert [code for _, code in ended] == [0] * len(running), ended
    said += [err for err, _ in ended]
    finished = Counter(re.findall(r"^  \d+/3 (\w+) (?:solved|failed_verification)", "".join(said), re.MULTILINE))
    assert finished == {"one": 4, "two": 4, "three": 4}  # four runs: two candidates, the baseline, and it once more
    with made.store() as store:
        assert [epoch.state for epoch in store.epochs()] == ["promoted", "rejected"]
        runs = store.runs()
        assert len(runs) == 4
        assert all(store.is_complete(run.id) for run in runs)
        assert all(len(store.rollouts(run.id)) == 3 for run in runs)
        assert store.holders() == []
        assert store.fsck() == []


def forget(project: Project, every: int) -> int:
    """Remove every n-th completion from the cache; returns how many there were."""
    with sqlite3.connect(project.root / ".ht" / "cache.db") as database:
        (count,) = database.execute("SELECT count(*) FROM llm").fetchone()
        database.execute("DELETE FROM llm WHERE rowid % ? = 0", (every,))
    database.close()
    return int(count)


@pytest.mark.parametrize("seconds", [1.5, 900.0])
def test_the_verdict_does_not_depend_on_the_caches(project: Make, seconds: float) -> None:
    """R3: a time budget that is spent in the middle, and one that is not."""
    made = project(settings=f"\n[budgets]\ntime = {seconds}\n")
    made.git("checkout", "-q", "-b", "cand")
    (made.root / "agent" / "skills" / "one").write_text("yes\n")
    made.git("add", "-A")
    made.git("commit", "-qm", "Learn one")
    made.git("checkout", "-q", "main")

    def measured(salt: str, **env: str) -> dict[str, Any]:
        ran = made.ht("evaluate", "main..cand", "--fresh", salt, HT_PROGRESS="none", **env)
        assert ran.code == 0, ran.err
        base, cand = ran.lines
        verdict = json.loads(made.ht("judge", f"{base}..{cand}", "--json").out)
        with made.store() as store:
            return {
                "measured": [sorted(rollout.measurement for rollout in store.rollouts(run)) for run in (base, cand)],
                "reasons": [sorted(str(rollout.reason) for rollout in store.rollouts(run)) for run in (base, cand)],
                "cached": sum(rollout.llm_cached for run in (base, cand) for rollout in store.rollouts(run)),
                "calls": sum(rollout.llm_calls for run in (base, cand) for rollout in store.rollouts(run)),
                "verdict": (verdict["decision"], verdict["loss"], verdict["sentence"], verdict["inputs"]),
            }

    cold = measured("cold", HT_CACHE="write")
    assert cold["cached"] == 0
    assert forget(made, 10**9) == cold["calls"] / 2  # both versions ask the same
    warm = measured("warm")
    assert warm["cached"] == warm["calls"] == cold["calls"]
    forget(made, 2)
    half = measured("half", HT_JOBS="1")
    assert 0 < half["cached"] < half["calls"]
    off = measured("off", HT_CACHE="off")
    assert off["cached"] == 0
    for other in (warm, half, off):
        assert {**other, "cached": 0} == {**cold, "cached": 0}
    spent = seconds < 2
    assert set(cold["reasons"][0]) == ({"time_limit"} if spent else {"None"})
    assert cold["verdict"][0] == ("rejected" if spent else "selected")
