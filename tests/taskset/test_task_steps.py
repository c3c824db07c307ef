"""Tasks of several steps, verifiers of their own, health checks, named rewards: as they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import Artifact
from harnesstrain.taskset import inspect_task, load_task

MakeTask = Callable[..., Path]
Files = dict[str, str | bytes | None]

STEPS = """schema_version = "1.1"
artifacts = ["/app/greet.sh"]
multi_step_reward_strategy = "final"

[environment]
allow_internet = false
workdir = "/app"

[[steps]]
name = "scaffold"
min_reward = 1.0
[steps.agent]
timeout_sec = 60.0

[[steps]]
name = "implement"
min_reward = { correct = 0.5, reward = 0.25 }
artifacts = ["README.md"]
[steps.verifier]
timeout_sec = 30.0
[steps.verifier.env]
EXPECTED = "${EXPECTED:-hello}"
[steps.healthcheck]
command = "test -x greet.sh"
interval_sec = 1
retries = 2
"""
SINGLE: Files = {"instruction.md": None, "solution/solve.sh": None}
FILES: Files = {
    **SINGLE,
    "tests/test.sh": None,
    "tests/helpers.sh": "pass() { echo 1 >/logs/verifier/reward.txt; }\n",
    "steps/scaffold/instruction.md": "# canary 1\nMake it.\n",
    "steps/scaffold/tests/test.sh": "pass\n",
    "steps/scaffold/solution/solve.sh": "touch greet.sh\n",
    "steps/implement/instruction.md": "Fill it.\n",
    "steps/implement/tests/test.sh": "pass\n",
    "steps/implement/workdir/config.txt": "x\n",
    "steps/implement/workdir/setup.sh": "rm -- $0\n",
}


def test_the_steps_of_a_task_are_read(make_task: MakeTask) -> None:
    directory = make_task(toml=STEPS, files=FILES)
    inspected = inspect_task(directory)
    task = inspected.task
    assert task is not None
    assert inspected.notes == ("it has no reference solution (steps/implement/solution/solve.sh)",)
    first, second = task.steps
    assert (task.instruction, task.timeout, task.solution, task.strategy) == ("Make it.\n", 60.0, None, "final")
    assert (first.name, first.instruction, first.min_reward, first.files) == (
        "scaffold",
        "Make it.\n",
        {"reward": 1.0},
        None,
    )
    assert first.solution is not None
    assert (second.timeout, second.min_reward) == (None, {"correct": 0.5, "reward": 0.25})
    assert (second.files, second.setup) == (directory / "steps/implement/workdir", True)
    assert second.healthcheck is not None
    assert (second.healthcheck.command, second.healthcheck.interval, second.healthcheck.retries) == (
        "test -x greet.sh",
        1.0,
        2,
    )
    assert (second.verifier.tests, second.verifier.base) == (directory / "steps/implement/tests", directory / "tests")
    assert (second.verifier.timeout, second.verifier.env) == (30.0, {"EXPECTED": "hello"})
    view = task.at(1)
    assert (view.instruction, view.timeout, view.verifier, view.steps) == ("Fill it.\n", None, second.verifier, ())
    assert task.environments == (task.environment,)


def test_a_step_without_tests_is_graded_by_those_of_the_task(make_task: MakeTask) -> None:
    files: Files = {**FILES, "tests/test.sh": "echo 1\n", "steps/implement/tests/test.sh": None}
    directory = make_task(toml=STEPS, files=files)
    second = load_task(directory).steps[1].verifier
    assert (second.tests, second.base) == (directory / "tests", None)


CHANGES: dict[str, Files] = {
    "instruction": {"steps/implement/instruction.md": "Fill it now.\n"},
    "test": {"steps/implement/tests/test.sh": "fail\n"},
    "shared test": {"tests/helpers.sh": "pass() { true; }\n"},
    "workdir": {"steps/implement/workdir/config.txt": "y\n"},
    "setup": {"steps/implement/workdir/setup.sh": None},
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_digest_covers_every_step(make_task: MakeTask, change: str) -> None:
    one = load_task(make_task("one", toml=STEPS, files=FILES))
    other = load_task(make_task("other", toml=STEPS, files={**FILES, **CHANGES[change]}))
    assert one.digest != other.digest
    assert one.environment.digest == other.environment.digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("min_reward = 1.0", "min_reward = 0.9"),
        ('strategy = "final"', 'strategy = "mean"'),
        ("timeout_sec = 60.0", "timeout_sec = 61.0"),
        ("retries = 2", "retries = 3"),
        ('"scaffold"', '"implement"'),
    ],
)
def test_the_digest_covers_what_is_set_for_a_step(make_task: MakeTask, old: str, new: str) -> None:
    one = load_task(make_task("one", toml=STEPS, files=FILES))
    changed = STEPS.replace(old, new)
    if old == '"scaffold"':  # the same steps in the other order
        changed = changed.replace('"implement"', '"scaffold"', 2).replace('"scaffold"', '"implement"', 1)
    assert load_task(make_task("other", toml=changed, files=FILES)).digest != one.digest


def test_the_digest_does_not_cover_a_solution(make_task: MakeTask) -> None:
    one = load_task(make_task("one", toml=STEPS, files=FILES))
    files: Files = {**FILES, "steps/scaffold/solution/solve.sh": "touch ./greet.sh\n"}
    assert load_task(make_task("other", toml=STEPS, files=files)).digest == one.digest


@pytest.mark.parametrize(
    ("toml", "files", "message"),
    [
        (STEPS, {"steps/implement/instruction.md": None}, "implement/instruction.md is missing"),
        (STEPS, {"steps/implement/tests/test.sh": None}, "no verifier"),
        (STEPS.replace('"scaffold"', '"Implement"'), {}, "two steps have the name 'implement'"),
        (STEPS.replace('"scaffold"', '"implement"'), {}, "two steps have the name"),
        (STEPS.replace('"scaffold"', '"../out"'), {}, "steps.name: should be the name of a folder"),
        (STEPS.replace("retries = 2", "retries = 0"), {}, "steps.healthcheck.retries"),
        (STEPS.replace("min_reward = 1.0", "min_reward = nan"), {}, "steps.min_reward"),
        (STEPS.replace('strategy = "final"', 'strategy = "best"'), {}, "multi_step_reward_strategy"),
    ],
)
def test_wrong_steps_are_a_config_error(make_task: MakeTask, toml: str, files: Files, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_task(make_task(toml=toml, files={**FILES, **files}))
    assert message in caught.value.message
    assert caught.value.hint


def test_unknown_keys_of_steps_are_told(make_task: MakeTask) -> None:
    toml = STEPS.replace("min_reward = 1.0", "min_rewards = 1.0")
    notes = inspect_task(make_task(toml=toml, files=FILES)).notes
    assert notes[0].endswith("unknown key 'steps.min_rewards' is ignored; did you mean 'min_reward'?")


SEPARATE = """artifacts = ["/app/out.txt", { source = "build", exclude = ["*.o"] }]
[verifier]
environment_mode = "separate"
[[verifier.collect]]
command = "dump >/logs/artifacts/db"
timeout_sec = 5
user = 0
[environment]
workdir = "/app"
allow_internet = false
"""
CARRIED = (
    Artifact(source="/logs/artifacts"),
    Artifact(source="/app/out.txt"),
    Artifact(source="/app/build", exclude=("*.o",)),
)


def test_a_verifier_can_have_a_fresh_copy_of_the_environment(make_task: MakeTask) -> None:
    task = load_task(make_task(toml=SEPARATE))
    verifier = task.verifier
    assert verifier.environment is not None
    assert (verifier.environment.context, verifier.in_image) == (task.environment.context, False)
    assert verifier.environment.digest == task.environment.digest
    assert verifier.artifacts == CARRIED
    (collect,) = verifier.collect
    assert (collect.timeout, collect.user) == (5.0, "0")


def test_a_verifier_can_have_an_image_of_its_own(make_task: MakeTask) -> None:
    files: Files = {"tests/Dockerfile": "FROM python:3.11-slim\nCOPY . /tests\n"}
    directory = make_task(toml=SEPARATE, files=files)
    task = load_task(directory)
    assert task.verifier.environment is not None
    assert (task.verifier.environment.context, task.verifier.in_image) == (directory / "tests", True)
    assert len(task.environments) == 2
    shared = load_task(make_task("shared", toml="[environment]\nallow_internet = false\n", files=files))
    assert shared.verifier.environment is None


def test_a_verifier_can_have_a_ready_image(make_task: MakeTask) -> None:
    toml = '[environment]\nallow_internet = false\n[verifier.environment]\ndocker_image = "grader:1"\n'
    task = load_task(make_task(toml=toml, files={"tests/test.sh": None}))
    assert task.verifier.environment is not None
    assert (task.verifier.environment.image, task.verifier.in_image) == ("grader:1", True)
    uploaded = load_task(make_task("uploaded", toml=toml))
    assert not uploaded.verifier.in_image
    assert uploaded.digest != task.digest


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[verifier.environment]\ncpus = 1\n", "separate verifier has neither tests/Dockerfile nor a docker_image"),
        ('artifacts = ["out"]\n[verifier]\nenvironment_mode = "separate"\n', "'out' has no absolute path"),
        ('artifacts = ["/a/../b"]\n[verifier]\nenvironment_mode = "separate"\n', "no path below the root"),
        ('artifacts = ["/"]\n[verifier]\nenvironment_mode = "separate"\n', "no path below the root"),
    ],
)
def test_a_wrong_separate_verifier_is_a_config_error(make_task: MakeTask, toml: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_task(make_task(toml=toml))
    assert message in caught.value.message


def test_a_ready_image_gets_the_files_beside_it(make_task: MakeTask) -> None:
    toml = '[environment]\ndocker_image = "debian:12"\n'
    one = load_task(make_task(toml=toml, files={"environment/Dockerfile": None, "environment/data": "x"}))
    assert one.environment.files is not None
    other = load_task(make_task("other", toml=toml, files={"environment/Dockerfile": None, "environment/data": "y"}))
    assert one.environment.digest != other.environment.digest


def test_a_health_check_is_read(make_task: MakeTask) -> None:
    toml = '[environment.healthcheck]\ncommand = "pg_isready"\nstart_period_sec = 3\n'
    task = load_task(make_task(toml=toml))
    check = task.environment.healthcheck
    assert check is not None
    assert (check.command, check.start_period, check.interval, check.timeout, check.retries) == (
        "pg_isready",
        3.0,
        5.0,
        30.0,
        3,
    )
    assert load_task(make_task("other", toml="")).environment.digest != task.environment.digest


def test_named_rewards_decide_when_the_task_says_so(make_task: MakeTask) -> None:
    toml = "[metadata.harnesstrain]\npass_reward = { correct = 1.0, fast = 0.5 }\n"
    task = load_task(make_task(toml=toml))
    assert task.passes(Grade(reward=0.0, rewards={"correct": 1.0, "fast": 0.5}))
    assert not task.passes(Grade(reward=1.0, rewards={"correct": 1.0, "fast": 0.4}))
    assert not task.passes(Grade(reward=1.0, rewards={"correct": 1.0}))
    assert load_task(make_task("other", toml="")).digest != task.digest
