"""The shipped harness, a scripted model, the local sandbox: what a change did, where, and whether it is to thank."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.harness.template import create
from harnesstrain.judge import StrictPareto
from harnesstrain.judge.rederive import rederive
from harnesstrain.stages.judging.derive import comparison_of, rederived
from tests.project import SETTINGS, TASK, TEST, Project

pytestmark = pytest.mark.local

MODEL = """\
import json
import re


def reply(request):
    said = [message["content"] for message in request.messages]
    task = re.search("NAME is (\\\\w+)", said[1])[1]
    turn = len(said) // 2 - 1
    act = json.dumps({"tool": "run", "command": "touch " + task})
    submit = json.dumps({"tool": "submit"})
    if task == "easy":
        return [act, submit][turn]
    if said[-1].startswith("exit code"):
        return submit
    if task == "shy":
        return act if "JSON" in said[-1] else "Let me think."
    return act if turn else "Let me think."
"""
TASKS = ("easy", "shy", "slow")


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """The shipped harness with three tasks, its baseline measured: `shy` needs more than the fixed repair sentence."""
    from harnesstrain.core import confinement

    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no local sandbox: {why}")
    extra = {
        "ht.toml": SETTINGS.replace("rules.jsonl", "model.py"),
        "panel.toml": f'[panel]\nname = "tiny"\nsource = "tasks"\ntrain = {json.dumps(TASKS)}\n',
        "model.py": MODEL,
    }
    for name in TASKS:
        folder = f"tasks/{name}"
        extra[f"{folder}/task.toml"] = TASK.format(name=name)
        extra[f"{folder}/instruction.md"] = f"Make /app/NAME, where NAME is {name}\n"
        extra[f"{folder}/environment/Dockerfile"] = "FROM python:3.11-slim\nWORKDIR /app\n"
        extra[f"{folder}/tests/test.sh"] = TEST.format(name=name)
    root = tmp_path_factory.mktemp("attribution") / "repo"
    create(root, extra={path: text.encode() for path, text in extra.items()})
    project = Project(root, cache_folder)
    ran = project.ht("evaluate", "@")
    assert ran.code == 0, ran.err
    return project


@pytest.fixture
def made(tmp_path: Path, baseline: Project) -> Project:
    """A copy of the measured baseline."""
    shutil.copytree(baseline.root, tmp_path / "repo")
    return Project(tmp_path / "repo", baseline.cache)


def change(project: Project, path: str, old: str, new: str, subject: str) -> None:
    """Commit a replacement in one file, and measure it."""
    file = project.root / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    project.git("commit", "-qam", subject)
    ran = project.ht("evaluate", "HEAD")
    assert ran.code == 0, ran.err


def measured(project: Project) -> Iterator[Rollout]:
    """The rollouts of the newest run."""
    with project.store() as store:
        yield from store.rollouts(list(store.runs())[-1].id)


def judged(project: Project, criterion: str = "strict-pareto") -> Verdict:
    ran = project.ht("judge", "HEAD~1..HEAD", "--criterion", criterion, "--json")
    assert ran.code in (0, 4), ran.err
    with project.store() as store:
        verdict = store.verdicts()[-1]
        assert verdict.criterion == criterion
        assert rederived(store, verdict) == ()
    return verdict


def test_renaming_a_variable_is_proven_to_change_nothing(made: Project) -> None:
    change(made, "agent/tools.py", "output", "printed", "Rename a variable")
    rollouts = list(measured(made))
    assert {rollout.task: rollout.llm_calls for rollout in rollouts} == {"easy": 2, "shy": 3, "slow": 3}
    assert all(rollout.llm_cached == rollout.llm_calls for rollout in rollouts)
    assert sum(rollout.executions for rollout in rollouts) == 0
    assert all(rollout.from_caches for rollout in rollouts)
    verdict = judged(made)
    assert verdict.sentence == "no change: all 3 tasks proven unchanged"
    assert (verdict.loss, verdict.decision, verdict.proven_unchanged) == (0, "rejected", 3)
    diff = made.ht("diff", "HEAD~1..HEAD")
    assert [line.split()[0] for line in diff.lines if "proven unchanged" in line] == list(TASKS)
    assert "3 of 3 tasks proven unchanged" in made.ht("report", "--compare", "HEAD~1..HEAD", "--md").out


def test_another_repair_prompt_runs_only_where_repair_fired(made: Project) -> None:
    change(made, "agent/repair.py", "was not valid. Try again.", "was not valid. Answer in JSON.", "Name the format")
    by_task = {rollout.task: rollout for rollout in measured(made)}
    live = {name: rollout.llm_calls - rollout.llm_cached for name, rollout in by_task.items()}
    assert live == {"easy": 0, "shy": 2, "slow": 2}
    assert by_task["easy"].executions == 0
    verdict = judged(made)
    assert [(flip.task, flip.gained, flip.attribution) for flip in verdict.gained] == [("shy", True, "attributed")]
    assert verdict.gained[0].evidence == "agent/repair.py:12 ran before step 2 (request)"
    assert (verdict.lost, verdict.proven_unchanged) == ((), 1)
    table = made.ht("diff", "HEAD~1..HEAD").out
    assert "diverged at step 2 (request)  gained, attributed: agent/repair.py:12 ran before step 2 (request)" in table
    assert "easy s1  proven unchanged" in table
    whole = made.ht("diff", "HEAD~1..HEAD", "--task", "shy").out
    assert "Message 4 of the request differs; the 3 before are the same." in whole
    assert "- Your reply was not valid. Try again." in whole
    assert "+ Your reply was not valid. Answer in JSON." in whole
    assert judged(made, "attributed-pareto").sentence == "gained shy, lost nothing"
    assert "attributed" in made.ht("report", "--compare", "HEAD~1..HEAD", "--md").out


def test_a_prompt_file_counts_where_it_is_read(made: Project) -> None:
    change(made, "prompts/system.md", "\n", "\nUse JSON.\n", "Say more")
    for rollout in measured(made):
        assert rollout.llm_cached == 0
        with made.store() as store:
            steps = store.trace(rollout.id).steps
        assert steps[0].ran == ("prompts/system.md",)


def test_an_attribution_that_was_forged_does_not_hold(made: Project) -> None:
    change(made, "agent/repair.py", "was not valid. Try again.", "was not valid. Answer in JSON.", "Name the format")
    verdict = judged(made)
    gained = tuple(flip.model_copy(update={"attribution": "collateral"}) for flip in verdict.gained)
    forged = verdict.model_copy(update={"gained": gained})
    with made.store() as store:
        comparison = comparison_of(store, verdict.base_run, verdict.cand_run)
        assert [one.field for one in rederive(StrictPareto(), comparison, forged)] == ["gained"]
