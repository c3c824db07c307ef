"""`ht export --atif`: any rollout of the store as a trajectory, and whether a file is one."""

from __future__ import annotations

import json

import pytest

from harnesstrain.stages.export import read_trajectory
from tests.cli.conftest import parsed
from tests.project import Project

pytestmark = pytest.mark.local


def test_rollouts_of_a_store(trained: Project) -> None:
    with trained.store() as store:
        rollouts = [rollout for run in store.runs() for rollout in store.rollouts(run.id)]
        commits = {run.id: run.commit for run in store.runs()}
        exchanged = {rollout.id: len(store.trace(rollout.id).steps) for rollout in rollouts}
    assert len(rollouts) >= 9
    for rollout in rollouts[::4]:
        ran = trained.ht("export", "--atif", rollout.id[:12])
        assert (ran.code, ran.err) == (0, "")
        (line,) = ran.lines
        made = read_trajectory(line.encode(), rollout.task)
        assert (made.trajectory_id, made.session_id) == (rollout.id, rollout.run)
        assert (made.agent.name, made.agent.version) == ("tiny", commits[rollout.run])
        assert len(made.steps) >= exchanged[rollout.id] - 2, "notes stand with their steps"
        assert made.extra is not None
        assert made.extra["outcome"] == rollout.outcome.value


def test_by_run_and_task_and_as_one_json_object(trained: Project) -> None:
    with trained.store() as store:
        run = store.epoch(3).cand_run or ""
    found = parsed(trained.ht("export", "--atif", f"{run[:8]}:one", "--json"))
    assert found["kind"] == "atif"
    text = trained.ht("export", "--atif", f"{run[:8]}:one").out
    assert found["trajectory"] == json.loads(text)
    place = trained.temporary / "trajectory.json"
    place.write_text(text)
    ran = trained.ht("export", "--check-atif", str(place))
    assert (ran.code, ran.out) == (0, f"valid ATIF-v1.8, {len(found['trajectory']['steps'])} steps\n")
    assert parsed(trained.ht("export", "--check-atif", str(place), "--json"))["kind"] == "atif_check"
    place.write_text(text.replace('"step_id": 2', '"step_id": 9'))
    bad = trained.ht("export", "--check-atif", str(place))
    assert (bad.code, bad.out) == (2, "")
    assert bad.err.startswith(f"error: {place}: the trajectory: step_id 9 where 2 is due")
    place.unlink()


def test_what_cannot_be_exported(trained: Project) -> None:
    assert trained.ht("export", "--atif", "ffffffff").code == 2
    both = trained.ht("export", "run", "--atif", "ffffffff")
    assert (both.code, both.out) == (2, "")
    assert both.err.startswith("error: `ht export` takes one of KIND, --atif and --check-atif\nhint: ")
    assert trained.ht("export").code == 2
    assert trained.ht("export", "--check-atif", "gone.json").err.startswith("error: no such file: gone.json\nhint: ")
