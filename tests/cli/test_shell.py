"""Commands in a real shell: pipes, exit codes, plugins, start-up."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import Project, Ran

Make = Callable[..., Project]
HEAVY = ("sqlalchemy", "pyarrow", "docker", "pydantic", "alembic", "httpx", "git", "numpy", "xllamacpp", "starlette")
PIPE = "ht propose | ht evaluate - | ht promote -"


def bash(project: Project, script: str, **env: str) -> Ran:
    """Run a script under `set -o pipefail`."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        cwd=project.root,
        env=project.environment(HT_PROGRESS="none", **env),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.local
def test_a_candidate_goes_through_a_pipe(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one", "02": "agent/broken/two"})
    start = made.git("rev-parse", "main")
    ran = bash(made, f"run=$(ht evaluate) && test ${{#run}} = 64 && {PIPE}")
    assert (ran.code, ran.err) == (0, "")
    head = made.git("rev-parse", "main")
    assert (ran.out, head != start) == (f"{head}\n", True)
    assert (made.root / "agent" / "skills" / "one").exists()

    ran = bash(made, PIPE)
    assert (ran.code, ran.out) == (0, "rejected\n")
    assert "lost two" in ran.err
    assert made.git("rev-parse", "main") == head

    ran = bash(made, f"{PIPE} --exit-code")  # nothing left to propose
    assert (ran.code, ran.out) == (4, "")
    assert "the estimator has nothing to propose" in ran.err
    assert ran.err.count("stdin held no id; nothing to do") == 2


@pytest.mark.local
def test_the_answer_is_no_only_where_it_was_asked(project: Make) -> None:
    made = project(patches={"01": "agent/broken/two"})
    assert bash(made, f"ht evaluate > /dev/null && {PIPE} --exit-code").code == 3
    with made.store() as store:
        (cand,) = (one.commit for one in store.candidates())
    assert bash(made, f"ht judge ..e1; ht judge ..{cand} --exit-code").code == 3


@pytest.mark.local
def test_the_baseline_is_measured_alike_before_anything_is_judged(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one"})
    ran = bash(made, PIPE)
    assert ran.code == 2
    assert "was not measured on tiny as run" in ran.err
    assert "hint: `ht evaluate" in ran.err


def test_a_plugin_is_a_program_on_the_path(project: Make, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("ht-foo", "ht-log"):
        (programs / name).write_text('#!/bin/sh\necho "$0: $*"; exit 9\n')
        (programs / name).chmod(0o755)
    made = project()
    path = f"{programs}:{made.environment()['PATH']}"
    ran = made.ht("foo", "--bar", "a b", PATH=path)
    assert (ran.code, ran.out) == (9, f"{programs}/ht-foo: --bar a b\n")
    assert made.ht("log", PATH=path).code != 9  # ours cannot be replaced
    assert made.ht("bar", PATH=path).code == 2


def test_help_imports_nothing_heavy_and_costs_little() -> None:
    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    argv = [sys.executable, "-X", "importtime", "-m", "harnesstrain.cli.app"]
    for command in ([], ["epoch"], ["tasks", "oracle"]):
        before = spent()
        ran = subprocess.run([*argv, *command, "--help"], capture_output=True, text=True, check=True)
        cost = spent() - before
        loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in ran.stderr.splitlines()}
        assert loaded & set(HEAVY) <= ({"pydantic"} if command else set()), command  # the parser's types need it
        assert ran.stdout.startswith("Usage: ht ")
        assert cost < 3, "an order of magnitude above what it should cost"


def test_the_version_is_said() -> None:
    ran = subprocess.run([sys.executable, "-m", "harnesstrain.cli.app", "--version"], capture_output=True, check=True)
    assert ran.stdout.startswith(b"ht 0.")


@pytest.mark.local
@pytest.mark.parametrize("argv", [("config",), ("config", "--json"), ("evaluate", "nope", "--json"), ("--help",)])
def test_whoever_read_our_output_may_leave(project: Make, argv: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    made = project()
    ran = subprocess.run(
        made.argv(*argv), cwd=made.root, env=made.environment(), stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert ran.returncode == 141
    assert b"Traceback" not in ran.stderr


@pytest.mark.local
def test_a_bug_leaves_a_short_trace_and_a_log(project: Make, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "class Broken:\n    name = 'broken'\n"
        "    def judge(self, comparison):\n        secret = 'hunter2'\n        1 / 0\n"
    )
    made = project()
    pair = "..".join((made.ht("evaluate").out.strip(), made.ht("evaluate", "--fresh", "again").out.strip()))
    ran = made.ht("judge", pair, "--criterion", "broken:Broken", PYTHONPATH=str(tmp_path))
    assert ran.code == 1
    assert ran.err.startswith("bug: ZeroDivisionError: division by zero\n")
    assert len(ran.err.splitlines()) <= 5
    assert "hunter2" not in ran.err
    (log,) = (made.root / ".ht" / "logs").iterdir()
    assert str(log) in ran.err
    assert "ZeroDivisionError" in log.read_text()
    ran = made.ht("judge", pair, "--criterion", "broken:Broken", "--json", PYTHONPATH=str(tmp_path))
    assert '"kind": "bug"' in ran.out
