"""Signals: one interrupt drains, two stop, SIGTERM stops; nothing committed is lost, nothing is left running."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest

from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]
SLOW = '{"reply": "ok", "duration": 1.0, "delay": %s}\n'


class Running:
    """A started command whose stderr is read line by line."""

    def __init__(self, project: Project, *argv: str) -> None:
        self.process = project.start(*argv, HT_JOBS="1", HT_PROGRESS="plain")
        assert self.process.stderr is not None
        self.said: list[str] = []

    def until(self, pattern: str) -> None:
        """Read until a line matches."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if re.search(pattern, line):
                return
        raise AssertionError(f"no line matches {pattern}: {self.said}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Its exit code.  Nothing that it had started may live on."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        out, err = self.process.communicate(timeout=60)
        self.out = out
        self.said += err.splitlines(keepends=True)
        _, alive = psutil.wait_procs(children, timeout=20)
        assert alive == []
        return self.process.returncode


def test_one_interrupt_drains(project: Make) -> None:
    made = project()
    made.rules(SLOW % 0.2)
    running = Running(made, "evaluate")
    running.until(r"1/3 one")
    running.signal(signal.SIGINT)
    assert running.end() == 5
    said = "".join(running.said)
    assert "stopping: what runs is finished first; once more stops at once" in said
    assert re.search(r"error: [12] of 3 cells are missing\nhint: the same command resumes", said)
    with made.store() as store:
        (run,) = store.runs()
        done = len(store.rollouts(run.id))
        assert 1 <= done < 3
        assert store.holders() == []
    again = made.ht("evaluate")
    assert (again.code, again.out.strip()) == (0, run.id)
    assert f"{3 - done} of 3 to run" in again.err
    assert list((made.root / ".ht" / "worktrees").iterdir()) == []


def test_an_interrupted_loop_goes_on_where_it_was(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one"})
    made.rules(SLOW % 0.1)
    running = Running(made, "epoch")
    running.until("candidate")
    running.signal(signal.SIGINT)
    assert running.end() == 5
    again = made.ht("epoch")
    assert again.code == 0
    assert "epoch 1 on" in again.err
    with made.store() as store:
        assert [epoch.state for epoch in store.epochs()] == ["promoted"]
        assert len(store.candidates()) == 1


def test_two_interrupts_stop(project: Make) -> None:
    made = project()
    made.rules(SLOW % 300)
    running = Running(made, "evaluate")
    running.until("measuring")
    running.signal(signal.SIGINT)
    running.until("stopping: ")
    running.signal(signal.SIGINT)
    assert running.end() == 130


@pytest.mark.parametrize("command", ["evaluate", "epoch"])
def test_sigterm_stops(project: Make, command: str) -> None:
    made = project()
    made.rules(SLOW % 300)
    running = Running(made, command)
    running.until("measuring")
    running.signal(signal.SIGTERM)
    assert running.end() == 143
    made.rules(SLOW % 0)
    assert made.ht("evaluate").code == 0  # the lease of the run is not in the way
    assert list((made.root / ".ht" / "worktrees").iterdir()) == []


def test_a_command_that_cannot_drain_stops_at_the_first_interrupt(project: Make) -> None:
    made = project()
    waiting = subprocess.Popen(
        made.argv("rev-parse", "@", "-"),
        cwd=made.root,
        env=made.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        psutil.Process(waiting.pid)
        for _ in range(600):  # until it waits for stdin, its store open
            if any(file.path.endswith("store.db") for file in psutil.Process(waiting.pid).open_files()):
                break
            assert waiting.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(0.1)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(30) == 130
    finally:
        waiting.kill()
        waiting.communicate()


def test_the_quickstart_takes_its_command_along(project: Make) -> None:
    """SIGTERM of the tour reaches the command that it runs."""
    made = project(patches={"01": "agent/skills/one"})
    made.rules(SLOW % 300)
    tour = (
        "from pathlib import Path; from harnesstrain.cli import exits, walkthrough; exits.install_signals();"
        "walkthrough._step('t', ['evaluate', '--progress', 'plain'], Path('.'))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", tour], cwd=made.root, env=made.environment(), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "measuring" in line:
            break
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert psutil.wait_procs(children, timeout=20)[1] == []
