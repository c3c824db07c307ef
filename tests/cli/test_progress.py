"""Progress: a bar on a terminal, lines elsewhere, nothing when nothing is wanted; never an escape of a model."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from harnesstrain.cli.progress import Lines, display, line_of
from harnesstrain.core.errors import UsageError
from harnesstrain.core.events import Bus, Event
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]
ESCAPE = "\x1b["
STARTED: dict[str, Any] = {"commit": "0" * 40, "split": "train", "cells": 2, "done": 0, "early_stop": False}


def on_a_terminal(project: Project, *argv: str, **env: str) -> str:
    """What a command writes to a terminal that is its stderr."""
    master, slave = pty.openpty()
    terminal = {"TERM": "xterm-256color", "COLUMNS": "100", **env}
    process = subprocess.Popen(
        project.argv(*argv),
        cwd=project.root,
        env=project.environment(**terminal),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # how a terminal says that nobody writes to it any more
            break
        if not chunk:
            break
        seen += chunk
    os.close(master)
    process.communicate(timeout=60)
    assert process.returncode == 0
    return seen.decode()


def test_a_terminal_gets_a_bar(project: Make) -> None:
    made = project()
    seen = on_a_terminal(made, "evaluate")
    assert ESCAPE in seen
    assert "on tiny" in seen
    assert re.search(r"3/3 \w+ \w+, 2 calls", seen)
    assert "1 of 3 solved" in seen


def test_a_run_that_was_stopped_says_of_how_many_it_speaks(project: Make) -> None:
    ran = project().ht("evaluate", "--max-tokens", "1", "--jobs", "1")
    assert ran.code == 5
    assert re.search(r"^  [01] of 1 solved · 1 of 3 measured", ran.err, re.MULTILINE), ran.err


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_that_wants_no_colour_gets_lines(project: Make, env: dict[str, str]) -> None:
    seen = on_a_terminal(project(), "evaluate", **env)
    assert "\x1b" not in seen
    assert "measuring" in seen


def test_modes(project: Make) -> None:
    made = project()
    plain = made.ht("evaluate")
    assert "\x1b" not in plain.err
    assert plain.err.splitlines()[0].startswith("measuring ")
    for none in (made.ht("evaluate", "--progress", "none"), made.ht("evaluate", HT_PROGRESS="none")):
        assert (none.code, none.err) == (0, "")
    bar = made.ht("evaluate", "--progress", "bar")
    assert bar.code == 0
    assert "1 of 3 solved" in bar.err


def test_escape_sequences_of_others_are_not_printed(project: Make) -> None:
    made = project(tasks=("one",))
    made.rules('{"error": "transport", "message": "\\u001b[31mred\\u001b]0;title\\u0007 herring"}\n')
    ran = made.ht("evaluate")
    assert ran.code == 4
    assert "red herring" in ran.err
    assert "\x1b" not in ran.err
    shown = made.ht("show", ran.out.strip())
    assert "red herring" in shown.out
    assert "\x1b" not in shown.out


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="not 'loud'"), display(Bus(), "loud"):
        pass


def test_a_name_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    data = {"done": 1, "cells": 2, "outcome": "solved", "reason": None, "detail": "x\ny", "calls": 2}
    lines.on(Event(kind="rollout.finished", data={**data, "task": "a\n  2/2\tb\u2028c"}))
    lines.close()
    assert capsys.readouterr().err == "  1/2 a   2/2 b c solved, 2 calls: x y\n"


def test_a_name_of_a_panel_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    bus = Bus()
    with display(bus, "bar"):
        bus.emit("run.started", **STARTED, panel="[/red] [bold]tiny")
    assert "Traceback" not in capsys.readouterr().err


def test_silence_is_broken_by_a_heartbeat(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesstrain.cli.progress.HEARTBEAT", -1.0)
    lines = Lines()
    lines.on(Event(kind="epoch.started", data={"epoch": 3, "base": "0123456789"}))
    for _ in range(100):
        said = capsys.readouterr().err
        if "…" in said:
            break
        lines._closed.wait(0.1)
    lines.close()
    assert re.search(r"… \d+ s, last: epoch 3 on 01234567", said)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Event(kind="unknown", data={}), ""),
        (Event(kind="warning", message="careful"), "  careful"),
        (Event(kind="run.waiting", message="another process measures run 1"), "  another process measures run 1"),
        (Event(kind="model.waiting", message="waiting for the model: busy"), "  waiting for the model: busy"),
        (Event(kind="gate.note", message="skipped"), "  skipped"),
        (Event(kind="certified", data={"task": "a", "result": "exact"}), ""),
        (Event(kind="certified", data={"task": "a", "result": "forked"}), "  a: forked"),
        (Event(kind="epoch.skipped", message="no change"), "  no candidate: no change"),
    ],
)
def test_lines_of_events(event: Event, line: str) -> None:
    assert line_of(event) == line
