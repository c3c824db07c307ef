"""What commands say of measurements that prove little: harnesses that do not repeat themselves, parts, caches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import parsed
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]

UNSTEADY = """
import time

from ht_sdk import serve


def solve(ep):
    ep.complete([{"role": "user", "content": f"it is {time.time_ns()}, {ep.task.instruction}"}])
    if ep.task.instruction.split()[-1] in LEARNED:
        ep.run("touch " + ep.task.instruction.split()[-1])
    ep.submit()


LEARNED = ("nothing",)
serve(solve)
"""


def committed(made: Project, text: str, subject: str) -> str:
    """The harness rewritten and committed; returns the commit."""
    (made.root / "agent" / "main.py").write_text(text)
    made.git("commit", "-qam", subject)
    return made.git("rev-parse", "HEAD")


def test_a_harness_that_does_not_repeat_itself_is_the_one_explanation(project: Make) -> None:
    made = project()
    base = committed(made, UNSTEADY, "Tell the time")
    cand = committed(made, UNSTEADY.replace('("nothing",)', '("two",)'), "Learn two")
    (run, other) = made.ht("evaluate", f"{base}..{cand}").lines
    certified = made.ht("certify", "harness", run)
    assert certified.err.count("  one: step 0: request") == 1
    assert "two: step 0" not in certified.err
    assert "    2 more like it" in certified.err.splitlines()
    assert len(certified.lines) == 3

    judged = made.ht("judge", f"{run}..{other}")
    assert judged.code == 4
    assert "(3 excluded, 0 not measured): the harness does not repeat itself on the same replies" in judged.err
    assert f"hint: `ht certify harness {run[:8]}` shows where" in judged.err

    why = "gained, not traced: not deterministic: the model or a harness does not repeat itself"
    diff = made.ht("diff", f"{run}..{other}")
    assert [line.endswith(why) for line in diff.lines if line.startswith("two s1")] == [True]
    one = made.ht("diff", f"{run}..{other}", "--task", "two")
    assert f"  {why}" in one.lines
    assert "  Message 1 of the request differs." in one.lines

    env = made.ht("certify", "env", other)
    assert "1 exact, 2 ran no command; 1 chains re-executed now" in env.err


def test_what_was_left_out_and_what_came_from_caches_is_counted(project: Make) -> None:
    made = project()
    (run,) = made.ht("evaluate").lines
    assert "caches" not in made.ht("show", run).out
    again = made.ht("evaluate", "--fresh", "again")
    assert f"  1 of 3 solved · 3 of 3 served from caches · run {again.lines[0][:8]}" in again.err.splitlines()
    assert "3 of 3 served from caches" in made.ht("show", again.lines[0]).out

    made.git("checkout", "-qb", "worse")
    (made.root / "agent" / "broken").mkdir()
    (made.root / "agent" / "broken" / "two").write_text("yes\n")
    made.git("add", "agent")
    made.git("commit", "-qm", "Break two")
    worse = made.git("rev-parse", "HEAD")
    made.git("checkout", "-q", "main")
    stopped = made.ht("evaluate", f"main..{worse}", "--early-stop", "--jobs", "1", "--json")
    left = parsed(stopped)["items"][-1]["not_needed"]
    assert left > 0
    diff = made.ht("diff", f"main..{worse}")
    assert f"{left} not needed: the verdict was decided without" in diff.lines
    assert parsed(made.ht("diff", f"main..{worse}", "--json"))["not_needed"] == left

    (verdict,) = made.ht("judge", f"main..{worse}").lines
    log = made.ht("log").lines
    assert log[0].split()[:4] == ["verdict", verdict[:8], "×", "rejected"]
    assert f"..{worse[:8]}: lost two" in log[0]
    assert [line.split()[0] for line in log[1:]] == ["run"] * 3
