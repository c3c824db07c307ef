"""Tasks of several steps: one environment, the harness anew for each step, every step graded before the next."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harnesstrain.core.records.certificate import Certified, Regraded
from harnesstrain.core.records.rollout import Outcome, Reason
from harnesstrain.core.records.run import Budgets
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import Environment, Healthcheck, Task, TaskStep, Verifier
from harnesstrain.rollout.bench import Bench, Finished
from harnesstrain.rollout.episode import attempt
from harnesstrain.rollout.oracle import do_nothing
from harnesstrain.rollout.playback import Recorded, play
from harnesstrain.rollout.reexecution import ChainCheck, reexecute
from harnesstrain.rollout.regrading import Regrader
from harnesstrain.rollout.rewarding import combined
from tests.rollout.making import SDK, Workbench
from tests.rollout.walking import Kept
from tests.sandbox import kinds

pytestmark = pytest.mark.local

HELPERS = "mkdir -p /logs/verifier\nsay() { echo $1 > /logs/verifier/reward.txt; }\n"
MADE = ". /tests/helpers.sh\nif [ -e /app/made ]; then say 1; else say 0; fi\n"
FILLED = '. /tests/helpers.sh\n[ "$(cat /app/made)" = "$WANT" ] && say 1 || say 0.5\n'
SETUP = 'tr a-z A-Z < word > loud\nrm word "$0"\n'

WORK = """
if ep.task.instruction == "Make it.":
    ep.run("touch made")
else:
    ep.run("cp loud made; find /tests /logs/verifier -type f")
ep.submit()
"""


@pytest.fixture(params=["in a fork", "in place"])
def bench(request: pytest.FixtureRequest, workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench with caches, whose sandbox grades in a fork, or cannot fork."""
    if request.param == "in place":
        can = workbench.sandbox.capabilities().model_copy(update={"forks": False, "snapshots": False})
        monkeypatch.setattr(workbench.sandbox, "capabilities", lambda: can)
    yield workbench.bench(step_cache=Kept(), verify_cache=Kept(), cache=Kept())


@pytest.fixture
def task(workbench: Workbench, tmp_path: Path) -> Task:
    """Two steps: make a file; fill it with a word that setup.sh prepared."""
    return two_steps(tmp_path / "two")


def two_steps(folder: Path, **changes: object) -> Task:
    """`changes`: of the second step."""
    for path, text in {
        "tests/helpers.sh": HELPERS,
        "make/test.sh": MADE,
        "fill/test.sh": FILLED,
        "work/setup.sh": SETUP,
        "work/word": "hello\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    digests = [uuid.uuid4().hex * 2 for _ in range(6)]
    verifiers = [
        Verifier(tests=folder / name, base=folder / "tests", timeout=20, env={"WANT": "HELLO"}, digest=digest)
        for name, digest in zip(("make", "fill"), digests, strict=False)
    ]
    make = TaskStep(
        name="make", instruction="Make it.", verifier=verifiers[0], min_reward={"reward": 1.0}, digest=digests[2]
    )
    fields = {"files": folder / "work", "setup": True, "digest": digests[3]} | changes
    fill = TaskStep(name="fill", instruction="Fill it.", verifier=verifiers[1]).model_copy(update=fields)
    return Task(
        name="two",
        digest=digests[4],
        instruction=make.instruction,
        environment=Environment(workdir="/app", digest=digests[5]),
        verifier=make.verifier,
        steps=(make, fill),
    )


def deeds(finished: Finished) -> list[str]:
    return [step.kind.value for step in finished.trace.steps]


def test_steps_share_an_environment_and_their_rewards_are_listed(
    workbench: Workbench, bench: Bench, task: Task
) -> None:
    done = workbench.solve(WORK, bench, task)
    rollout = done.rollout
    assert (rollout.outcome, rollout.reward, rollout.detail) == (Outcome.SOLVED, 1.0, "")
    assert rollout.rewards == {"make": 1.0, "fill": 1.0}
    assert deeds(done) == ["stage", "run", "submit", "verify", "stage", "run", "submit"]
    assert rollout.actions == 2
    listed = done.trace.steps[5]
    assert listed.stdout == b"", "nothing of the verifier's is left for the next step"


def test_a_second_time_nothing_but_the_harness_runs(workbench: Workbench, bench: Bench, task: Task) -> None:
    cold = workbench.solve(WORK, bench, task)
    warm = workbench.solve(WORK, bench, task)
    assert (warm.rollout.from_caches, warm.rollout.executions, warm.rollout.grade_cached) == (True, 0, True)
    assert warm.rollout.actions_cached == warm.rollout.actions == 2
    assert warm.rollout.measurement == cold.rollout.measurement


def test_what_diverges_in_the_second_step_finds_the_first_one_done(
    workbench: Workbench, bench: Bench, task: Task
) -> None:
    workbench.solve(WORK, bench, task)
    other = workbench.solve(WORK.replace("cp loud made", "cat made loud; cat loud > made"), bench, task)
    assert other.rollout.outcome is Outcome.SOLVED
    assert other.trace.steps[5].stdout == b"HELLO\n"
    assert other.rollout.actions_cached == 1


def test_a_step_below_its_least_reward_ends_the_task(workbench: Workbench, bench: Bench, task: Task) -> None:
    done = workbench.solve("ep.submit()", bench, task)
    assert (done.rollout.outcome, done.rollout.reward, done.rollout.rewards) == (
        Outcome.FAILED_VERIFICATION,
        0.0,
        {"make": 0.0},
    )
    assert done.rollout.detail == "stopped after step 1 of 2, 'make': its reward 0 is below what it must reach"
    assert deeds(done) == ["stage", "submit", "verify"]


@pytest.mark.parametrize(("strategy", "reward"), [("mean", 0.75), ("final", 0.5)])
def test_the_reward_of_a_task_is_that_of_its_strategy(
    workbench: Workbench, bench: Bench, task: Task, strategy: str, reward: float
) -> None:
    task = task.model_copy(update={"strategy": strategy, "pass_reward": 0.6})
    body = "if 'Make' in ep.task.instruction:\n    ep.run('touch made')\nep.submit()"
    done = workbench.solve(body, bench, task)
    assert (done.rollout.reward, done.rollout.rewards) == (reward, {"make": 1.0, "fill": 0.5})
    assert done.rollout.outcome is (Outcome.SOLVED if strategy == "mean" else Outcome.FAILED_VERIFICATION)


def test_a_step_that_is_not_handed_in_ends_the_task(workbench: Workbench, bench: Bench, task: Task) -> None:
    body = "if 'Make' in ep.task.instruction:\n    ep.run('touch made')\n    ep.submit()"
    done = workbench.solve(body, bench, task)
    assert (done.rollout.outcome, done.rollout.reason) == (Outcome.NO_SUBMIT, Reason.GAVE_UP.value)
    assert (done.rollout.reward, done.rollout.rewards) == (None, {"make": 1.0})
    assert done.rollout.detail == "in step 'fill'"


def test_what_is_on_disk_is_graded_step_by_step_where_the_rule_says_so(workbench: Workbench, task: Task) -> None:
    bench = workbench.bench(grading="final_state")
    done = workbench.solve(WORK.replace("ep.submit()", ""), bench, task)
    assert (done.rollout.outcome, done.rollout.rewards) == (Outcome.SOLVED, {"make": 1.0, "fill": 1.0})


def test_a_crash_in_a_later_step_is_the_harness_s(workbench: Workbench, bench: Bench, task: Task) -> None:
    done = workbench.solve(
        WORK.replace('ep.run("cp loud made', 'raise SystemExit(3)\n    ep.run("cp loud made'), bench, task
    )
    assert done.rollout.outcome is Outcome.POLICY_CRASH
    assert done.rollout.rewards == {"make": 1.0}


def test_each_step_has_its_own_budget(workbench: Workbench, bench: Bench, task: Task) -> None:
    tight = replace(bench, regime=bench.regime.model_copy(update={"budgets": Budgets(steps=2)}))
    body = "for _ in range(2):\n    ep.complete([{'role': 'user', 'content': 'x'}])\n" + WORK
    done = workbench.solve(body, tight, task)
    assert (done.rollout.outcome, done.rollout.llm_calls) == (Outcome.SOLVED, 4)


BROKEN: dict[str, tuple[dict[str, object], str]] = {
    "setup": ({"files": "bad", "setup": True}, "step 'fill' cannot begin: setup.sh exited 3: no way"),
    "health": (
        {"healthcheck": Healthcheck(command="echo sick; test -e /app/nothing", interval=0.01, retries=2)},
        "step 'fill' cannot begin: `echo sick; test -e /app/nothing` failed 2 times (exit 1): sick",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_later_step_that_cannot_begin_is_not_passed(
    workbench: Workbench, bench: Bench, tmp_path: Path, what: str
) -> None:
    changes, detail = BROKEN[what]
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/setup.sh").write_text("echo no way\nexit 3\n")
    changes = {key: tmp_path / "bad" if key == "files" else value for key, value in changes.items()}
    done = workbench.solve(WORK, bench, two_steps(tmp_path / "two", **changes))
    assert (done.rollout.outcome, done.rollout.detail) == (Outcome.FAILED_VERIFICATION, detail)
    assert done.rollout.rewards == {"make": 1.0}


def test_a_first_step_that_cannot_begin_is_no_measurement(workbench: Workbench, bench: Bench, task: Task) -> None:
    check = Healthcheck(command="false", interval=0.01, retries=1)
    first = task.steps[0].model_copy(update={"healthcheck": check})
    done = workbench.solve(WORK, bench, task.model_copy(update={"steps": (first, task.steps[1])}))
    assert done.rollout.outcome is Outcome.INFRA_SANDBOX
    assert "step 'make' of two cannot begin" in done.rollout.detail


def test_the_chain_of_every_step_can_be_executed_again(workbench: Workbench, bench: Bench, task: Task) -> None:
    done = workbench.solve(WORK, bench, task)
    checked = reexecute(workbench.sandbox, task, done.trace.steps, bench.limits)
    driven = 3 if not workbench.sandbox.capabilities().forks else 2
    assert (checked.result, checked.executed) == (Certified.EXACT, 2 + driven)


def test_a_verifier_that_grades_otherwise_the_second_time_is_a_fork(
    workbench: Workbench, bench: Bench, task: Task, tmp_path: Path
) -> None:
    done = workbench.solve(WORK, bench, task)
    (tmp_path / "two/make/test.sh").write_text(". /tests/helpers.sh\nsay 0.25\n")
    checked = reexecute(workbench.sandbox, task, done.trace.steps, bench.limits)
    forks = workbench.sandbox.capabilities().forks
    assert checked.result is (Certified.EXACT if forks else Certified.FORKED)  # a fork leaves nothing to repeat


def _again(workbench: Workbench, bench: Bench, task: Task, done: Finished, times: int = 1) -> ChainCheck:
    steps = done.trace.steps
    regrader = Regrader(bench, task, done.rollout, steps, times=times)
    return reexecute(workbench.sandbox, task, steps, bench.limits, regrader=regrader)


@pytest.mark.parametrize("times", [1, 2])
def test_every_step_is_graded_again(workbench: Workbench, bench: Bench, task: Task, times: int) -> None:
    done = workbench.solve(WORK, bench, task)
    checked = _again(workbench, bench, task, done, times)
    assert checked.regrading is not None
    assert (checked.result, checked.regrading.result) == (Certified.EXACT, Regraded.SAME)


def test_a_step_that_is_graded_otherwise_the_second_time_is_named(
    workbench: Workbench, bench: Bench, task: Task, tmp_path: Path
) -> None:
    done = workbench.solve(WORK, bench, task)
    (tmp_path / "two/make/test.sh").write_text(". /tests/helpers.sh\nsay 0.25\n")
    checked = _again(workbench, bench, task, done)
    assert checked.regrading is not None
    assert (checked.result, checked.regrading.result) == (Certified.FORKED, Regraded.OTHER)
    if workbench.sandbox.capabilities().forks:
        assert checked.regrading.reason == "in step 'make' the verifier gave 1, then 0.25"


def test_the_last_step_that_is_graded_otherwise_the_second_time_is_a_fork(
    workbench: Workbench, bench: Bench, task: Task, tmp_path: Path
) -> None:
    done = workbench.solve(WORK, bench, task)
    (tmp_path / "two/fill/test.sh").write_text(". /tests/helpers.sh\nsay 0\n")
    checked = _again(workbench, bench, task, done)
    assert checked.regrading is not None and checked.result is Certified.FORKED
    assert checked.regrading.reason == "in step 'fill' the verifier gave 1, then 0"


def test_a_walk_that_stopped_early_is_graded_again_as_far_as_it_was_graded(
    workbench: Workbench, bench: Bench, task: Task
) -> None:
    done = workbench.solve(WORK.replace("touch made", "true"), bench, task)
    assert (done.rollout.outcome, done.rollout.reward) == (Outcome.FAILED_VERIFICATION, 0.0)
    checked = _again(workbench, bench, task, done)
    assert checked.regrading is not None
    assert (checked.result, checked.regrading.result) == (Certified.EXACT, Regraded.SAME)


def _indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.strip("\n").splitlines()) + "\nserve(solve)\n"


def _played(workbench: Workbench, bench: Bench, task: Task, body: str, done: Finished) -> Certified:
    cell = workbench.cell(SDK + _indented(body), task)
    endpoint = bench.model.endpoint()
    recorded = Recorded(done.rollout, done.trace, bench.regime, endpoint, "/app")
    return play(cell, recorded, lambda messages: 0, isolated=True).result


def test_the_harness_of_every_step_can_be_played_back(workbench: Workbench, task: Task) -> None:
    bench = workbench.bench()
    body = "ep.complete([{'role': 'user', 'content': ep.task.instruction}])\n" + WORK
    done = workbench.solve(body, bench, task)
    assert done.rollout.outcome is Outcome.SOLVED
    assert _played(workbench, bench, task, body, done) is Certified.EXACT
    assert _played(workbench, bench, task, body.replace("cp loud made", "cp loud  made"), done) is Certified.FORKED


def test_doing_nothing_stops_at_the_first_step(workbench: Workbench, bench: Bench, task: Task) -> None:
    trial = do_nothing(workbench.sandbox, task)
    assert (trial.solved, trial.steps, trial.stopped) == (False, (0.0,), "after step 1 of 2, 'make'")


COMBINED: list[tuple[str, list[Grade], float, dict[str, float]]] = [
    ("mean", [Grade(reward=1.0), Grade(reward=0.0)], 0.5, {"make": 1.0, "fill": 0.0}),
    ("final", [Grade(reward=1.0), Grade(reward=0.0)], 0.0, {"make": 1.0, "fill": 0.0}),
    ("mean", [Grade(reward=1.0)], 1.0, {"make": 1.0}),
    (
        "mean",
        [Grade(reward=1.0, rewards={"a": 1.0, "b": 1.0}), Grade(reward=0.5, rewards={"a": 0.5})],
        0.75,
        {"a": 0.75, "b": 0.5, "make": 1.0, "fill": 0.5},
    ),
    (
        "final",
        [Grade(reward=1.0, rewards={"a": 1.0, "b": 1.0}), Grade(reward=0.5, rewards={"a": 0.5})],
        0.5,
        {"a": 0.5, "make": 1.0, "fill": 0.5},
    ),
]


@pytest.mark.parametrize(("strategy", "grades", "reward", "rewards"), COMBINED)
def test_rewards_are_combined(
    task: Task, strategy: str, grades: list[Grade], reward: float, rewards: dict[str, float]
) -> None:
    found = combined(task.model_copy(update={"strategy": strategy}), grades)
    assert (found.reward, found.rewards) == (reward, rewards)


def test_a_step_goes_on_from_a_full_re_execution_alike(
    workbench: Workbench, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harnesstrain.rollout.place.compared", lambda rollout: True)
    bench = workbench.bench(step_cache=Kept(), verify_cache=Kept())
    compared = workbench.solve(WORK, bench, task)
    assert (compared.rollout.outcome, compared.rollout.executions) == (Outcome.SOLVED, 6)
    fresh = workbench.bench(step_cache=Kept(), verify_cache=Kept())
    thorough = attempt(replace(workbench.cell(SDK + _indented(WORK), task), thorough=True), fresh)
    assert thorough.rollout.outcome is Outcome.SOLVED
    assert thorough.rollout.measurement == compared.rollout.measurement


@pytest.mark.docker
def test_steps_in_containers(local: object, tmp_path: Path) -> None:
    with closing(kinds.docker(tmp_path / "cache")) as sandbox:
        workbench = Workbench(tmp_path, sandbox)
        task = two_steps(tmp_path / "two")
        environment = task.environment.model_copy(update={"image": kinds.SMALL})
        task = task.model_copy(update={"environment": environment})
        bench = workbench.bench(step_cache=Kept(), verify_cache=Kept(), cache=Kept())
        cold = workbench.solve(WORK, bench, task)
        assert (cold.rollout.outcome, cold.rollout.rewards) == (Outcome.SOLVED, {"make": 1.0, "fill": 1.0})
        assert workbench.solve(WORK, bench, task).rollout.from_caches
        other = workbench.solve(WORK.replace("cp loud made", "cat loud > made"), bench, task)
        assert (other.rollout.outcome, other.rollout.executions) == (Outcome.SOLVED, 5)
        checked = reexecute(sandbox, task, other.trace.steps, bench.limits)
        assert (checked.result, checked.executed) == (Certified.EXACT, 5)
        broken = workbench.solve(WORK.replace("touch made", "touch made; : > /bin/rm"), bench, task)
        assert broken.trace.steps[5].stdout == b"", "no program of the state's takes the tests away"
