"""A verifier that loses its network half-way: never a 0, never kept, graded again on the next attempt."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.records.rollout import Outcome
from harnesstrain.core.records.task import Environment, Solution, Task
from harnesstrain.rollout import grading
from harnesstrain.rollout.oracle import do_nothing, solve
from harnesstrain.sandbox.base import Sandbox
from tests.rollout.making import Workbench
from tests.rollout.walking import Kept
from tests.sandbox import kinds

pytestmark = pytest.mark.local

HALF_WAY = """\
mkdir -p /logs/verifier
cd /tests && python3 -m unittest test_first; first=$?
if [ $first -eq 0 ]; then
  python3 - <<'END' 2>&1 | tail -1
import urllib.request
urllib.request.urlopen("https://packages.invalid/simple/second-part/")
END
  uvx -p 3.13 -w pytest==8.4.1 pytest /tests/test_second.py
  first=$?
fi
if [ $first -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
"""The first part needs no network, the second part cannot be installed; the reward says 0."""
FIRST = """\
import os, unittest

class First(unittest.TestCase):
    def test_done(self):
        self.assertTrue(os.path.exists("/app/done"))
"""


def half_way(workbench: Workbench, **environment: Any) -> Task:
    where = Environment(workdir="/app", digest=uuid.uuid4().hex * 2, **environment)
    task = workbench.task(HALF_WAY, environment=where)
    (task.verifier.tests / "test_first.py").write_text(FIRST)
    solution = workbench.place / "solution"
    solution.mkdir()
    (solution / "solve.sh").write_text("touch /app/done\n")
    return task.model_copy(update={"solution": Solution(path=solution)})


def loses_its_network(sandbox: Sandbox, task: Task) -> None:
    with pytest.raises(VerifierFailure) as caught:
        solve(sandbox, task)
    assert caught.value.extra["rule"] == "no_network"
    assert "Temporary failure in name resolution" in caught.value.message
    assert caught.value.message.endswith("(test.sh exited 0, after the tests began)")
    assert do_nothing(sandbox, task).grade.reward == 0.0  # its first part failed: that is measured


def test_an_oracle_whose_verifier_loses_its_network(workbench: Workbench) -> None:
    loses_its_network(workbench.sandbox, half_way(workbench))


@pytest.mark.docker
def test_in_a_container(tmp_path: Path, local: Sandbox) -> None:
    sandbox = kinds.docker(tmp_path / "cache")
    try:
        loses_its_network(sandbox, half_way(Workbench(tmp_path, sandbox), image=kinds.SMALL))
    finally:
        sandbox.close()


def test_a_broken_verifier_is_not_kept_and_the_next_attempt_grades_again(workbench: Workbench) -> None:
    task = half_way(workbench)
    bench = workbench.bench(step_cache=Kept(), verify_cache=Kept())
    body = "ep.run('touch done')\nep.submit()"
    broken = workbench.solve(body, bench, task).rollout
    assert (broken.outcome, broken.reason, broken.reward) == (Outcome.INFRA_VERIFIER, "no_network", None)
    assert len(bench.verify_cache) == 0  # type: ignore[arg-type]
    again = workbench.solve(body, bench, task).rollout
    assert (again.outcome, again.actions_cached, again.grade_cached) == (Outcome.INFRA_VERIFIER, 1, False)
    mended = HALF_WAY.replace("uvx -p 3.13 -w pytest==8.4.1 pytest /tests/test_second.py", "true")
    (task.verifier.tests / "test.sh").write_text(mended)  # the network is back
    solved = workbench.solve(body, bench, task).rollout
    assert (solved.outcome, solved.reward, solved.grade_cached) == (Outcome.SOLVED, 1.0, False)
    assert len(bench.verify_cache) == 1  # type: ignore[arg-type]
    assert workbench.solve(body, bench, task).rollout.grade_cached


def test_what_was_graded_by_other_rules_is_graded_again(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = workbench.bench(step_cache=Kept(), verify_cache=Kept())
    task = workbench.task(environment=Environment(workdir="/app", digest=uuid.uuid4().hex * 2))
    assert not workbench.solve("ep.submit()", bench, task).rollout.grade_cached
    assert workbench.solve("ep.submit()", bench, task).rollout.grade_cached
    monkeypatch.setattr(grading, "rules", lambda: "other rules")
    assert not workbench.solve("ep.submit()", bench, task).rollout.grade_cached
