"""The loop measures of a candidate only what can change the verdict, and says so everywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harnesstrain.core.records.verdict import Decision
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]
TASKS = ("one", "two", "three", "four")


def calls(project: Project) -> list[int]:
    """Model calls of every run, in the order of the runs."""
    with project.store() as store:
        return [sum(r.llm_calls for r in store.rollouts(run.id)) for run in store.runs()]


def test_an_epoch_stops_where_the_verdict_is_decided(project: Make) -> None:
    made = project(patches={"01": "agent/broken/two", "02": "agent/skills/one"}, tasks=TASKS)
    plan = made.ht("epoch", "--n", "2", "--progress", "plain", HT_JOBS="3")
    assert plan.code == 0, plan.err
    assert "measuring" in plan.err and "at most 4 of 4 to run" in plan.err
    assert "  0 of 1 solved · 3 not needed: the verdict is decided" in plan.err
    with made.store() as store:
        first, second = store.verdicts()
        assert [e.state for e in store.epochs()] == ["rejected", "promoted"]
        assert (first.decision, first.not_needed, len(first.lost)) == (Decision.REJECTED, 3, 1)
        assert (second.decision, [flip.task for flip in second.gained]) == (Decision.SELECTED, ["one"])
        saved = first.not_needed + second.not_needed
        assert saved >= 3
        measured = [len(store.rollouts(run.id)) for run in store.runs()]
    assert sum(calls(made)) == 2 * sum(measured) == 2 * (3 * len(TASKS) - saved)  # every rollout asks twice
    assert made.ht("verify", "--exit-code").code == 0
    shown = made.ht("log").out
    assert "0/1, 3 not needed" in shown
    assert "partial" not in made.ht("status").out
    report = made.ht("report", "--compare", f"{first.base_run[:12]}..{first.cand_run[:12]}", "--md").out
    assert "3 cells were not needed: no outcome there could change this verdict." in report
    assert "missing" not in report
    cand = first.cand_commit[:12]
    whole = made.ht("evaluate", cand, "--exhaustive")
    assert (whole.code, whole.lines) == (0, [first.cand_run])
    assert made.ht("verify", "--exit-code").code == 0
    assert "0/4" in made.ht("log").out


def test_exhaustive_turns_it_off(project: Make) -> None:
    made = project(patches={"01": "agent/broken/two"}, tasks=TASKS)
    assert made.ht("epoch", "--exhaustive").code == 0
    assert calls(made) == [8, 8]


def test_a_range_is_needed_and_the_dry_run_says_at_most(project: Make) -> None:
    made = project(tasks=TASKS)
    refused = made.ht("evaluate", "@", "--early-stop")
    assert refused.code == 2
    assert "--early-stop needs a baseline, and '@' is no range" in refused.err
    (made.root / "agent" / "broken").mkdir()
    (made.root / "agent" / "broken" / "two").write_text("yes\n")
    made.git("add", "agent/broken/two")
    made.git("commit", "-qm", "worse", "--no-verify")
    dry = made.ht("evaluate", "@~1..@", "--early-stop", "--dry-run")
    assert [line.partition(": ")[2] for line in dry.lines] == [
        "4 cells, 0 done, 4 to run",
        "4 cells, 0 done, at most 4 to run",
    ]
    done = made.ht("evaluate", "@~1..@", "--early-stop", "--json")
    assert done.code == 0, done.err
    assert '"not_needed": 3' in done.out or '"not_needed":3' in done.out
    assert calls(made) == [8, 2]


def test_a_gain_that_does_not_repeat_has_the_rest_measured(project: Make) -> None:
    """The gain that decided forks; only then is the rest needed, and it holds another gain."""
    made = project(tasks=TASKS)
    parts = [made.patch(f"0{n}", path).read_text() for n, path in enumerate(("agent/skills/one", "agent/skills/three"))]
    parts.append(made.patch("02", "agent/random/one").read_text())
    for file in (made.root / "patches").iterdir():
        file.unlink()
    (made.root / "patches" / "01.patch").write_text(parts[0] + "".join(p.partition("\n\n")[2] for p in parts[1:]))
    ran = made.ht("epoch", HT_JOBS="1")
    assert ran.code == 0, ran.err
    with made.store() as store:
        (verdict,) = store.verdicts()
        assert [flip.task for flip in verdict.gained] == ["three"]
        assert [(e.task, e.reason) for e in verdict.excluded if e.reason == "forked"] == [("one", "forked")]
        assert verdict.selected
    assert made.ht("verify", "--exit-code").code == 0
