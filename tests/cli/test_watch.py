"""`ht watch`: another terminal looks on while something runs, and sees it end, break off, or never begin."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import parsed
from tests.cli.terminal import Terminal
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]
SLOW = '{"reply": "ok", "duration": 1.0, "delay": %s}\n'
RESTORED = "\x1b[?1049l"
CURSOR = "\x1b[?25h"


@pytest.fixture
def slow(project: Make) -> Iterator[Project]:
    """A project whose every reply takes a while.  What a test starts with `running` is ended."""
    made = project()
    made.rules(SLOW % 1.5)
    yield made


def started(project: Project, *argv: str) -> subprocess.Popen[str]:
    """A command that has begun to measure."""
    process = project.start(*argv, HT_JOBS="1", HT_PROGRESS="plain")
    assert process.stderr is not None
    for line in process.stderr:
        if "measuring" in line:
            return process
    raise AssertionError("it measures nothing")


def killed(process: subprocess.Popen[str]) -> None:
    """Kill the process as nothing can be told of beforehand."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_before_anything_was_recorded(project: Make, tmp_path: Path) -> None:
    made = project()
    ran = made.ht("watch", "--once")
    assert (ran.code, ran.out, ran.err) == (0, "nothing is being measured; `ht evaluate` measures a version\n", "")
    found = parsed(made.ht("watch", "--once", "--json"))
    assert (found["kind"], found["state"], found["runs"], found["epoch"]) == ("watch", "nothing", [], None)
    assert not (made.root / ".ht").exists()
    piped = made.ht("watch")
    assert (piped.code, piped.lines) == (0, ["nothing is being measured; `ht evaluate` measures a version"])
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    assert made.ht("watch", "--once", cwd=nowhere).code == 6


def test_a_pipe_gets_a_line_per_change_until_it_is_done(slow: Project) -> None:
    process = started(slow, "evaluate")
    ran = slow.ht("watch", "--interval", "0.2")
    out, _ = process.communicate()
    run = out.strip()[:8]
    assert ran.code == 0, ran.err
    assert ran.lines[0].startswith(f"run {run} on tiny/train: measuring, ")
    assert ran.lines[-3] == "  3/3 three s1 failed_verification, 2.0 s, 37 tokens"
    assert ran.lines[-2:] == [f"run {run} on tiny/train: complete, 3 of 3 done, 1 solved", "nothing is being measured"]


def test_json_is_an_object_per_change(slow: Project) -> None:
    process = started(slow, "evaluate")
    watch = slow.start("watch", "--json", "--interval", "0.2")
    assert watch.stdout is not None
    first = json.loads(watch.stdout.readline())
    assert (first["schema"], first["kind"], first["error"], first["state"]) == (1, "watch", None, "measuring")
    (run,) = first["runs"]
    assert run["cells"][0] | {"seconds": 0} == {
        **{"task": "one", "seed": 1, "state": "running", "reason": "", "attempt": 1},
        **{"seconds": 0, "tokens": 0, "calls": 0, "at": None},
    }
    assert [cell["state"] for cell in run["cells"]] == ["running", "waiting", "waiting"]
    assert "detail" not in json.dumps(first["holders"]) or all(one["detail"] == "" for one in first["holders"])
    killed(process)
    last = json.loads(watch.stdout.readlines()[-2])
    assert (last["state"], last["runs"][0]["state"]) == ("stale", "stale")
    _, err = watch.communicate()
    assert watch.returncode == 5
    assert "unfinished" in err


def test_a_killed_run_is_stale_and_not_running(slow: Project) -> None:
    process = started(slow, "evaluate")
    killed(process)
    ran = slow.ht("watch", "--once")
    assert ran.code == 0
    assert re.search(rf"^stale: pid {process.pid} is gone; ", ran.out, re.MULTILINE)
    assert "running" not in ran.out
    assert slow.ht("watch", "--until-done").code == 5


def test_a_whole_screen_that_is_redrawn_resized_and_given_back(slow: Project) -> None:
    process = started(slow, "epoch")
    terminal = Terminal(slow, "watch", "--interval", "0.2", columns=100, lines=30)
    seen = terminal.until(r"at work")
    assert "\x1b[?1049h" in seen and "epoch 1: measuring the baseline" in seen
    assert re.search(r"one s1\s.*running", seen)
    terminal.resize(38, 12)
    terminal.until(r"…")
    killed(process)
    terminal.until(r"stale: pid")
    terminal.type("q")
    assert terminal.end() == 0
    after = terminal.written.rsplit(RESTORED, 1)
    assert len(after) == 2 and CURSOR in terminal.written
    assert "stale: pid" in after[1] and terminal.strays == []


@pytest.mark.parametrize(("how", "code"), [("\x03", 130), (signal.SIGTERM, 143)])
def test_a_signal_gives_the_terminal_back(slow: Project, how: str | signal.Signals, code: int) -> None:
    terminal = Terminal(slow, "watch", "--interval", "60")
    terminal.until("nothing is being measured")
    if isinstance(how, str):
        terminal.type(how)
    else:
        terminal.signal(how)
    assert terminal.end() == code
    assert RESTORED in terminal.written and CURSOR in terminal.written
    assert "Traceback" not in terminal.written


def test_a_suspended_watch_gives_the_terminal_back_and_takes_it_again(slow: Project) -> None:
    """No shell waits for it here, so the system lets it go on at once."""
    terminal = Terminal(slow, "watch", "--interval", "0.2")
    terminal.until("nothing is being measured")
    terminal.type("\x1a")
    terminal.until(re.escape(RESTORED))
    terminal.until(r"nothing is being measured")
    terminal.type("q")
    assert terminal.end() == 0


def test_a_dumb_terminal_gets_lines_and_no_colour_no_colours(slow: Project) -> None:
    dumb = Terminal(slow, "watch", "--until-done", TERM="dumb")
    assert dumb.end() == 0
    assert "\x1b" not in dumb.written
    plain = Terminal(slow, "watch", "--until-done", NO_COLOR="1")
    assert plain.end() == 0
    assert "\x1b[?1049h" in plain.written
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain.written)


def test_whoever_stops_reading_ends_it_quietly(slow: Project) -> None:
    process = started(slow, "evaluate")
    argv = " ".join(slow.argv("watch", "--interval", "0.1"))
    done = subprocess.run(
        ["bash", "-c", f'{argv} | head -n 1; echo "${{PIPESTATUS[0]}}"'],
        cwd=slow.root,
        env=slow.environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    killed(process)
    assert done.stdout.splitlines()[-1] in ("141", "5")
    assert "Traceback" not in done.stderr


def test_looking_writes_nothing_and_holds_nobody_up(slow: Project) -> None:
    process = started(slow, "evaluate")
    watch = slow.start("watch", "--interval", "0.1")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    watch.communicate(timeout=100)
    with slow.store() as store:
        assert store.holders() == [] and store.is_complete(out.strip())
        assert len(store.rollouts(out.strip())) == 3
