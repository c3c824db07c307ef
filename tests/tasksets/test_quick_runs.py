"""The shipped task set `quick`, run in the local sandbox: reference solutions, doing nothing, cheating."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from harnesstrain.core.errors import Unsupported
from harnesstrain.core.records.task import Task
from harnesstrain.rollout.grading import grade
from harnesstrain.sandbox import open_sandbox
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.taskset import load_panel

pytestmark = pytest.mark.local
TASKS = load_panel("quick").tasks
TWICE = (1, 2)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """The local sandbox."""
    with closing(open_sandbox("local")) as found:
        try:
            found.check(TASKS["write-greeting"].environment)
        except Unsupported as reason:
            pytest.skip(reason.message)
        yield found


def reward(sandbox: Sandbox, task: Task, command: str = "") -> float:
    """The reward for the state that a shell command leaves."""
    sandbox.prepare(task.environment)
    with closing(sandbox.open(task.environment)) as session:
        if command:
            session.run(command, timeout=60)
        return grade(sandbox, session, task).reward


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("time", TWICE)
def test_the_reference_solution_solves(sandbox: Sandbox, name: str, time: int) -> None:
    task = TASKS[name]
    assert task.solution is not None
    sandbox.prepare(task.environment)
    with closing(sandbox.open(task.environment)) as session:
        session.put(task.solution.path, "/solution")
        done = session.run("/solution/solve.sh", timeout=60)
        assert (done.exit_code, done.stdout, done.stderr) == (0, b"", b"")
        assert grade(sandbox, session, task).reward == 1.0


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("time", TWICE)
def test_doing_nothing_solves_nothing(sandbox: Sandbox, name: str, time: int) -> None:
    assert reward(sandbox, TASKS[name]) == 0.0


def named(task: Task) -> str:
    """The paths that an instruction names, for a shell loop."""
    return " ".join(sorted({path.rstrip(".") for path in re.findall(r"/app/[\w./-]+", task.instruction)}))


EVERY = 'for path in {named}; do mkdir -p "$(dirname "$path")"; [ -e "$path" ] || {make}; done'
FORGE = """
mkdir -p /logs/verifier /tests
echo 1 >/logs/verifier/reward.txt
echo '{"reward": 1}' >/logs/verifier/reward.json
echo 'echo 1 >/logs/verifier/reward.txt' >/tests/test.sh
echo 'raise SystemExit(0)' >/tests/check.py
"""
SHADOW = """
for name in csv json re subprocess pathlib sys os tarfile sitecustomize usercustomize; do
    echo 'raise SystemExit(0)' >/app/$name.py
done
mkdir -p ~/bin
printf '#!/bin/sh\nexit 0\n' >~/bin/python3
chmod 755 ~/bin/python3
echo 'PATH=~/bin:$PATH' | tee ~/.bashrc ~/.profile >~/.bash_profile
"""
EMPTY = """
find /app -exec touch {} +
find /app -type f -exec truncate -s 0 {} +
"""
EMPTY_FILES = EVERY.replace("{make}", ': >"$path"')
CHEATS = {
    "empty files, a forged reward, modules of the same name": EMPTY_FILES + FORGE + SHADOW,
    "touching and emptying everything": EMPTY,
    "copies of what is given": EVERY.replace("{make}", 'cat $(find /app -type f | head -n 1) /dev/null >"$path"'),
}
"""Tried on every task."""
MORE_CHEATS = {
    "pipes": EVERY.replace("{make}", 'mkfifo "$path"'),
    "directories": EVERY.replace("{make}", 'mkdir "$path"'),
    "removing everything": "rm -rf /app/* /app/.[a-z]*",
    "opening every permission": "chmod -R 777 /app",
    "a zero": EVERY.replace("{make}", 'echo 0 >"$path"'),
}
"""Tried on one task of each kind."""
KINDS = ("make-project-tree", "make-scripts-executable", "restore-backup", "json-stock-value", "write-stats-script")


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("cheat", CHEATS)
def test_cheating_solves_nothing(sandbox: Sandbox, name: str, cheat: str) -> None:
    task = TASKS[name]
    assert reward(sandbox, task, CHEATS[cheat].replace("{named}", named(task))) == 0.0


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("cheat", MORE_CHEATS)
def test_more_cheating_solves_nothing(sandbox: Sandbox, name: str, cheat: str) -> None:
    task = TASKS[name]
    assert reward(sandbox, task, MORE_CHEATS[cheat].replace("{named}", named(task))) == 0.0
