"""Jobs of Harbor in the store: outcomes, what is comparable, traces, doing it again, folders that cannot be read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import ConfigError, UsageError
from harnesstrain.core.records.rollout import Outcome, StepKind
from harnesstrain.stages.export.endings import MEANINGS, ending_of
from harnesstrain.stages.export.harborjob import TrialResult
from harnesstrain.stages.export.taking import Taken, TakeSpec, take
from harnesstrain.stages.judging.derive import comparison_of
from harnesstrain.store import Store
from tests.stages.harborjobs import TRAJECTORY, job, raised, ran, trial

REAL = Path(__file__).resolve().parents[3] / "shared/realdata/harbor-jobs"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(tmp_path / ".ht", create=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def real() -> Path:
    """Two job folders that Harbor wrote."""
    if not REAL.is_dir():
        pytest.skip(f"no real jobs at {REAL}")
    return REAL


def imported(store: Store, *folders: Path, **more: Any) -> tuple[Taken, ...]:
    """What importing says."""
    return take(store, TakeSpec(jobs=folders, **more))


def outcome(rewards: dict[str, Any] | None, error: str | None = None, **more: Any) -> tuple[str, str | None]:
    """Outcome and reason of a trial that the exception `error` ended, if any."""
    table = trial("t", rewards, trial_name="t__1", exception_info=raised(error) if error else None, **more)
    ending = ending_of(TrialResult.model_validate(table))
    return ending.outcome.value, ending.reason


def test_the_reward_decides_where_it_counts() -> None:
    assert outcome({"reward": 1.0}) == ("solved", None)
    assert outcome({"reward": 0.99}) == ("failed_verification", None)
    assert outcome({"correctness": 1, "performance": 1}) == ("solved", None)
    assert outcome({"correctness": 1, "performance": 0}) == ("failed_verification", None)
    assert outcome({"reward": 1, "performance": 0}) == ("solved", None)
    assert outcome({"reward": 1}, "AgentTimeoutError") == ("solved", None)
    assert outcome({"reward": 0}, "AgentTimeoutError") == ("no_submit", "time_limit")
    assert outcome({"reward": 0}, "ContextWindowExceededError") == ("no_submit", "context_overflow")
    assert outcome({"reward": 0}, "NonZeroAgentExitCodeError") == ("policy_crash", None)
    assert outcome({"reward": 0}, "SomethingNewError") == ("failed_verification", None)


def test_where_no_reward_counts_nothing_is_measured() -> None:
    assert outcome(None) == ("infra_verifier", "no_reward")
    assert outcome({}) == ("infra_verifier", "no_reward")
    assert outcome({"reward": "high"}) == ("infra_verifier", "no_reward")
    assert outcome({"reward": float("nan")}) == ("infra_verifier", "no_reward")
    assert outcome(None, "VerifierTimeoutError") == ("infra_verifier", "verifier")
    assert outcome(None, "RateLimitError") == ("infra_llm", "llm")
    assert outcome({"reward": 1}, "RateLimitError", reward_valid=False) == ("infra_llm", "llm")
    assert outcome(None, "AgentTimeoutError") == ("infra_verifier", "no_reward")
    assert outcome(None, "CancelledError") == ("infra_sandbox", "cancelled")


def test_a_trial_that_failed_before_its_agent_ran_never_counts() -> None:
    for error in ("RuntimeError", "AgentTimeoutError", "HealthcheckError"):
        assert outcome({"reward": 1}, error, agent_execution=None)[0] == "infra_sandbox", error


def test_what_harbor_says_of_an_exception_goes_before_the_table() -> None:
    told = raised("AgentTimeoutError", has_valid_reward=False)
    table = trial("t", {"reward": 1}, trial_name="t__1", exception_info=told, reward_valid=None)
    assert not ending_of(TrialResult.model_validate(table)).outcome.scorable
    told = raised("RateLimitError", has_valid_reward=True)
    table = trial("t", {"reward": 1}, trial_name="t__1", exception_info=told)
    assert ending_of(TrialResult.model_validate(table)).outcome is Outcome.SOLVED


def test_no_outcome_of_the_table_is_a_solve() -> None:
    assert {one.outcome for one in MEANINGS.values()}.isdisjoint({Outcome.SOLVED, Outcome.FORKED})


def test_a_job_is_a_run(store: Store, tmp_path: Path) -> None:
    spent = {"n_input_tokens": 100, "n_cache_tokens": 60, "n_output_tokens": 7, "cost_usd": 0.1}
    folder = job(
        tmp_path / "first",
        [
            trial("one", {"reward": 1}, agent_result=spent),
            trial("two", None, exception_info=raised("RuntimeError"), agent_execution=None),
            trial("one", {"reward": 0}),
            trial("two", {"a": 1, "b": 0}),
        ],
    )
    (taken,) = imported(store, folder)
    assert (taken.tasks, taken.attempts, taken.cells, taken.recorded, taken.solved, taken.infra) == (2, 2, 4, 4, 1, 1)
    run = store.run(taken.run)
    assert run.imported is not None
    assert (run.imported.agent, run.imported.version, run.imported.name) == ("mine", "1.0", "first")
    assert (run.seeds, run.panel_name, len(run.commit)) == ((1, 2), "imported:tasks", 40)
    assert store.is_complete(run.id)
    assert not store.regime(run.regime).deterministic and store.regime(run.regime).grading == "imported"
    found = {(one.task, one.seed): one for one in store.rollouts(run.id)}
    assert found["one", 1].usage.model_dump() == {"prompt": 100, "cached": 60, "completion": 7, "reasoning": 0}
    assert (found["one", 1].recorded_time, found["one", 1].reward, found["one", 1].rewards) == (2.0, 1.0, {})
    assert (found["two", 1].outcome, found["two", 1].detail) == (Outcome.INFRA_SANDBOX, "RuntimeError: it broke")
    assert (found["two", 2].reward, found["two", 2].rewards) == (0.0, {"a": 1.0, "b": 0.0})
    assert store.fsck() == []


def test_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    folder = job(tmp_path / "first", [trial("one", {"reward": 1}), trial("two", None)])
    (dry,) = imported(store, folder, dry_run=True)
    assert store.runs() == [] and dry.recorded == 2
    (first,) = imported(store, folder)
    (second,) = imported(store, folder)
    assert (first.run, second.run, first.recorded, second.recorded) == (dry.run, first.run, 2, 0)
    assert len(store.rollouts(first.run)) == 2
    (folder / "two__0000001/result.json").write_text(
        json.dumps(trial("two", {"reward": 1}, trial_name="two__0000001", started_at="2026-01-01T00:00:01Z"))
    )
    assert [imported(store, folder, dry_run=True)[0].recorded for _ in range(2)] == [1, 1]
    (third,) = imported(store, folder)
    assert imported(store, folder, dry_run=True)[0].recorded == 0
    assert (third.run, third.recorded, third.infra) == (first.run, 1, 0)
    assert [one.attempt for one in store.rollouts(first.run)] == [1, 1, 2]
    changed = trial("one", {"reward": 0}, trial_name="one__0000000", started_at="2026-01-01T00:00:00Z")
    (folder / "one__0000000/result.json").write_text(json.dumps(changed))
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match="one, attempt 1, of job first was another"):
            imported(store, folder, dry_run=dry_run)
    assert len(store.rollouts(first.run)) == 3


def test_jobs_are_cut_to_what_they_have_in_common(store: Store, tmp_path: Path) -> None:
    base = job(tmp_path / "base", [trial(name, {"reward": 0}) for name in ("one", "two", "two", "three")])
    cand = job(tmp_path / "cand", [trial(name, {"reward": 1}) for name in ("two", "one", "two", "four")], agent="more")
    before, after = imported(store, base, cand)
    assert (before.tasks, before.attempts, after.tasks, after.attempts) == (2, 1, 2, 1)
    assert before.notes == (
        "base: 1 task left out, not in every job in the same version: three",
        "base: 1 attempt left out, every job has 1 of each task",
    )
    assert after.notes[0] == "cand: 1 task left out, not in every job in the same version: four"
    comparison = comparison_of(store, before.run, after.run)
    assert len(comparison.pairs) == 2 and not comparison.open
    (whole,) = imported(store, base)
    assert not any("left out" in note for note in whole.notes)
    alone = whole.run
    with pytest.raises(UsageError, match="are not comparable: panels") as caught:
        comparison_of(store, alone, after.run)
    assert caught.value.hint is not None and "ht import harbor JOB JOB" in caught.value.hint


@pytest.mark.parametrize(
    ("config", "alike"),
    [
        ({"n_concurrent_trials": 9, "debug": True, "n_attempts": 1, "jobs_dir": "elsewhere"}, True),
        ({"timeout_multiplier": 2.0}, False),
        ({"environment": {"type": "other"}}, False),
        ({"verifier": {"override_timeout_sec": 5}}, False),
    ],
)
def test_only_jobs_of_one_configuration_are_comparable(
    store: Store, tmp_path: Path, config: dict[str, Any], alike: bool
) -> None:
    base = job(tmp_path / "base", [trial("one", {"reward": 0})])
    cand = job(tmp_path / "cand", [trial("one", {"reward": 1})], **config)
    before, after = imported(store, base, cand)
    assert (before.regime == after.regime) is alike


def test_each_agent_of_a_job_is_a_run(store: Store, tmp_path: Path) -> None:
    other = {"name": "mine", "version": "2.0", "model_info": {"name": "m", "provider": "p"}}
    folder = job(tmp_path / "both", [trial("one", {"reward": 1}), trial("one", {"reward": 0}, agent_info=other)])
    found = {one.version: one for one in imported(store, folder)}
    assert {version: (one.cells, one.solved, one.model) for version, one in found.items()} == {
        "1.0": (1, 1, None),
        "2.0": (1, 0, "p/m"),
    }
    assert len({store.run(one.run).commit for one in found.values()}) == 2


def test_a_trajectory_is_the_trace(store: Store, tmp_path: Path) -> None:
    folder = job(tmp_path / "first", [trial("one", {"reward": 1}, trajectory=TRAJECTORY)])
    (taken,) = imported(store, folder)
    (rollout,) = store.rollouts(taken.run)
    assert (rollout.llm_calls, rollout.actions, rollout.usage.prompt, rollout.usage.completion) == (2, 2, 30, 5)
    trace = store.trace(rollout.id)
    asked, acted, answered, submitted = trace.steps
    assert [step.kind for step in trace.steps] == [StepKind.LLM, StepKind.RUN, StepKind.LLM, StepKind.RUN]
    assert (asked.content, asked.reasoning, acted.stdout) == ("so I do", "hm", b"one two")
    assert json.loads(asked.tool_calls or "") == [{"id": "a", "name": "bash", "arguments": '{"command":"ls"}'}]
    assert json.loads(acted.action or "")["command"] == 'bash {"command":"ls"}'
    assert json.loads(submitted.action or "")["command"] == "submit {}"
    said = [trace.messages[key] for key in answered.messages]
    assert [one["role"] for one in said if isinstance(one, dict)] == ["system", "user", "assistant", "tool"]


def test_a_trajectory_that_breaks_the_format_is_left_out(store: Store, tmp_path: Path) -> None:
    folder = job(tmp_path / "first", [trial("one", {"reward": 1}, trajectory=TRAJECTORY | {"mine": 1})])
    (taken,) = imported(store, folder)
    assert (
        len(taken.notes) == 1 and "no trace of one__0000000" in taken.notes[0] and "mine: unknown key" in taken.notes[0]
    )
    assert store.rollouts(taken.run)[0].trace is None


def test_several_steps(store: Store, tmp_path: Path) -> None:
    steps = [
        {"step_name": "a", "verifier_result": {"rewards": {"reward": 1}}, "agent_execution": ran(1, 3)},
        {"step_name": "b", "verifier_result": {"rewards": {"reward": 0}}, "agent_execution": ran(5, 4)},
    ]
    folder = job(tmp_path / "first", [trial("one", {"reward": 0.5}, agent_execution=None, step_results=steps)])
    (taken,) = imported(store, folder)
    (rollout,) = store.rollouts(taken.run)
    assert (rollout.outcome, rollout.reward) == (Outcome.FAILED_VERIFICATION, 0.5)
    assert (rollout.rewards, rollout.recorded_time) == ({"a": 1.0, "b": 0.0}, 7.0)


BROKEN: dict[str, Any] = {
    "no such folder": lambda folder: shutil.rmtree(folder),
    "is no Harbor job: result.json missing": lambda folder: (folder / "result.json").unlink(),
    "is no Harbor job: config.json missing": lambda folder: (folder / "config.json").unlink(),
    "config.json: not JSON": lambda folder: (folder / "config.json").write_text("{"),
    "config.json: not a JSON object": lambda folder: (folder / "config.json").write_text("[]"),
    "result.json: id: field required": lambda folder: (folder / "result.json").write_text("{}"),
    "schema_version 7 is not known": lambda folder: (folder / "result.json").write_text('{"schema_version": 7}'),
    "result.json: not UTF-8": lambda folder: (folder / "one__0000000/result.json").write_bytes(b"\xff"),
    "result.json: trial_name: field required": lambda folder: (folder / "one__0000000/result.json").write_text("{}"),
    "has not finished: 0 of 1": lambda folder: (
        (folder / "one__0000000/result.json").unlink(),
        (folder / "result.json").write_text('{"id": "x", "n_total_trials": 1}'),
    ),
    "has no finished trial": lambda folder: shutil.rmtree(folder / "one__0000000"),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_folder_that_cannot_be_read_is_one_line(store: Store, tmp_path: Path, message: str) -> None:
    folder = job(tmp_path / "first", [trial("one", {"reward": 1})])
    BROKEN[message](folder)
    with pytest.raises(ConfigError, match=message) as caught:
        imported(store, folder)
    assert caught.value.hint and "\n" not in caught.value.message
    assert store.runs() == []


def test_what_is_named_by_mistake(store: Store, tmp_path: Path) -> None:
    folder = job(tmp_path / "jobs/first", [trial("one", {"reward": 1})])
    with pytest.raises(ConfigError, match="is one trial") as caught:
        imported(store, folder / "one__0000000")
    assert caught.value.hint == f"name its job: {folder}"
    with pytest.raises(ConfigError, match="no Harbor job") as caught:
        imported(store, tmp_path / "jobs")
    assert caught.value.hint == "it holds jobs; name one: first"
    with pytest.raises(UsageError, match="'two' matches no task"):
        imported(store, folder, include=("two",))
    with pytest.raises(UsageError, match="no task is left"):
        imported(store, folder, exclude=("one",))


def test_real_jobs(store: Store, real: Path) -> None:
    (oracle,) = imported(store, real / "sample-oracle")
    assert (oracle.tasks, oracle.cells, oracle.solved, oracle.infra) == (5, 5, 4, 1)
    found = {one.task: one for one in store.rollouts(oracle.run)}
    assert found["polyglot_python_wordy"].outcome is Outcome.INFRA_SANDBOX
    assert found["cookbook-multi-reward"].rewards == {"correctness": 1.0, "performance": 1.0}
    assert found["cookbook-multi-step"].rewards == {"scaffold": 1.0, "implement": 1.0, "document": 1.0}
    (nop,) = imported(store, real / "sample-nop")
    assert (nop.tasks, nop.attempts, nop.cells, nop.solved, nop.infra) == (2, 2, 4, 0, 0)
    before, after = imported(store, real / "sample-nop", real / "sample-oracle")
    comparison = comparison_of(store, before.run, after.run)
    assert [flip.gained for flip in comparison.gained] == [True, True] and not comparison.lost
    assert store.fsck() == []
