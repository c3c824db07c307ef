"""A task of several steps through every command: checked, solved, measured, certified, compared, exported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import parsed
from tests.project import Project

pytestmark = pytest.mark.local

STEPS = """\
schema_version = "1.4"

[environment]
network_mode = "no-network"
workdir = "/app"

[[steps]]
name = "begin"
min_reward = 1.0

[[steps]]
name = "end"
"""
TEST = """\
mkdir -p /logs/verifier
if [ -e /app/{name} ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def stepped(project: Callable[..., Project], **more: object) -> Project:
    """A project with a task of the steps `one` and `two`, beside that of the name `three`."""
    files = {"panel.toml": '[panel]\nname = "tiny"\nsource = "tasks"\ntrain = ["three", "walk"]\n'}
    files |= {"tasks/walk/task.toml": STEPS, "tasks/walk/environment/Dockerfile": "FROM python:3.11-slim\n"}
    for step, name in (("begin", "one"), ("end", "two")):
        files[f"tasks/walk/steps/{step}/instruction.md"] = f"Make /app/NAME, where NAME is {name}\n"
        files[f"tasks/walk/steps/{step}/tests/test.sh"] = TEST.format(name=name)
        files[f"tasks/walk/steps/{step}/solution/solve.sh"] = f"touch {name}\n"
    return project(files=files, tasks=("three",), **more)


def test_from_the_check_to_a_comparison(project: Callable[..., Project]) -> None:
    made = stepped(project, skills=("one",), patches={"1.patch": "agent/skills/two"})
    checked = parsed(made.ht("tasks", "check", "--json"))
    assert [(task["name"], task["status"], task["runs"]["local"]) for task in checked["items"]] == [
        ("three", "ok", []),
        ("walk", "ok", []),
    ]
    twice = made.ht("tasks", "oracle", "--twice", "--include", "walk", "--exit-code")
    assert (twice.code, twice.out) == (0, "solved          walk  steps 1, 1; twice the same\n")
    idle = made.ht("tasks", "oracle", "--noop", "--include", "walk", "--exit-code")
    assert idle.out == "unsolved        walk  steps 0, stopped after step 1 of 2, 'begin'\n"

    run = made.ht("evaluate").out.strip()
    with made.store() as store:
        (walk,) = [rollout for rollout in store.rollouts(run) if rollout.task == "walk"]
        kinds = [step.kind.value for step in store.trace(walk.id).steps]
    assert (walk.outcome.value, walk.reward, walk.rewards) == ("failed_verification", 0.5, {"begin": 1.0, "end": 0.0})
    assert kinds.count("stage") == 2
    assert kinds.count("verify") == 1
    assert "begin" in made.ht("show", walk.id[:12]).out
    certified = made.ht("certify", "env", run)
    assert certified.code == 0, certified.err
    played = made.ht("certify", "harness", run)
    assert played.code == 0, played.err
    trajectory = made.ht("export", "--atif", walk.id[:12])
    (made.root / "walk.json").write_text(trajectory.out)
    assert made.ht("export", "--check-atif", "walk.json").code == 0
    assert "verify step 'begin': {\"reward\":1," in trajectory.out.replace("\\", "")

    epoch = made.ht("epoch", "--n", "1")
    assert epoch.code == 0, epoch.err
    assert "promoted" in made.ht("log").out
    assert "walk" in made.ht("diff", "@~1..@").out


def test_where_a_task_runs_is_a_column(project: Callable[..., Project]) -> None:
    made = project(files={"more/imaged/task.toml": '[environment]\ndocker_image = "x:1"\nallow_internet = false\n'})
    folder = made.root / "more/imaged"
    (folder / "instruction.md").write_text("Do it.\n")
    (folder / "tests").mkdir()
    (folder / "tests/test.sh").write_text("true\n")
    ran = made.ht("tasks", "check", "more", DOCKER_HOST="unix:///nowhere")
    first, why = ran.lines[:2]
    assert first == "unsupported imaged  local no   docker ?"
    assert why.strip() == "the local sandbox has no image 'x:1'"
    assert "no sandbox of kind 'docker' can be had here" in ran.err


def test_what_differs_the_second_time_is_said(project: Callable[..., Project]) -> None:
    made = project()
    for folder in (made.root / "tasks").iterdir():
        (folder / "solution").mkdir()
    (made.root / "tasks/one/solution/solve.sh").write_text("touch one; head -c 9 /dev/urandom | sha256sum\n")
    (made.root / "tasks/two/solution/solve.sh").write_text("touch two; date +%N > odd\n")
    (made.root / "tasks/three/solution/solve.sh").write_text("touch three\n")
    ran = made.ht("tasks", "oracle", "--twice", "--exit-code")
    assert ran.code == 3
    assert sorted(ran.lines) == [
        "differs         one  solve.sh printed something else",
        "differs         two  other files",
        "solved          three  twice the same",
    ]


def test_a_verifier_gets_a_variable_only_where_the_user_allows_it(project: Callable[..., Project]) -> None:
    made = project(tasks=("one",), skills=("one",))
    toml = made.root / "tasks/one/task.toml"
    toml.write_text(toml.read_text() + '\n[verifier.env]\nKEY = "${JUDGE_KEY}"\n')
    script = made.root / "tasks/one/tests/test.sh"
    script.write_text('echo "with $KEY"\n[ "$KEY" = s3cret-value ] || exit 1\n' + script.read_text())
    refused = made.ht("evaluate", JUDGE_KEY="s3cret-value")
    assert refused.code == 6
    assert "task 'one': its verifier needs variables of the host: JUDGE_KEY" in refused.err
    checked = made.ht("tasks", "check", JUDGE_KEY="s3cret-value")
    assert checked.lines[0].startswith("unsupported one")
    allowed = made.ht("tasks", "check", HT_VERIFIER_ENV="JUDGE_KEY", JUDGE_KEY="s3cret-value")
    assert allowed.lines[0].startswith("ok          one  local yes")
    run = made.ht("evaluate", "--set", "sandbox.verifier_env=JUDGE_KEY", JUDGE_KEY="s3cret-value")
    assert run.code == 0, run.err
    with made.store() as store:
        (rollout,) = store.rollouts(run.out.strip())
    assert rollout.solved
    kept = [path for path in (made.root / ".ht").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if b"s3cret" in path.read_bytes()]
