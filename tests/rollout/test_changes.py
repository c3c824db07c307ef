"""Rows of a SWE-bench data set, measured whole: a real checkout in a real sandbox, its change graded elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.records.rollout import Outcome
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Task
from harnesstrain.rollout.changes import EMPTY
from harnesstrain.rollout.oracle import do_nothing, solve
from harnesstrain.sandbox.base import Sandbox, Session
from harnesstrain.taskset import load_task
from tests.rollout.making import Workbench
from tests.rollout.walking import Kept
from tests.sandbox import kinds

SAMPLE = Path(__file__).resolve().parents[1] / "taskset/swebench/sample"
FIX = "sed -i 's|/ len(values)|/ max(len(values), 1)|' calc/__init__.py"
"""A right change, and not the reference one."""
Make = Callable[..., Task]


@pytest.fixture(
    params=[pytest.param("local", marks=pytest.mark.local), pytest.param("docker", marks=pytest.mark.docker)]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    """Each isolating sandbox in turn."""
    make = kinds.local if request.param == "local" else kinds.docker
    with closing(make(tmp_path / "layers")) as sandbox:
        yield sandbox


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Loads the sample, or one like it: `change(directory)` first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def task(change: Callable[[Path], object] | None = None) -> Task:
        directory = tmp_path / "ours__calc-1"
        shutil.copytree(SAMPLE, directory)
        if change is not None:
            change(directory)
        return load_task(directory)

    return task


class Opened:
    """Counts the environments that a sandbox opens."""

    def __init__(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        original = sandbox.open

        def counted(*args: Any, **kwargs: Any) -> Session:
            self.number += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(sandbox, "open", counted)


def test_solved_by_the_reference_patch_and_not_by_nothing(place: Sandbox, make: Make) -> None:
    task = make()
    done = solve(place, task)
    assert done.solved, done
    assert done.grade.output.startswith("resolved\n")
    nothing = do_nothing(place, task)
    assert (nothing.solved, nothing.grade.reward, nothing.grade.output) == (False, 0.0, EMPTY)


def test_equal_changes_are_evaluated_once(place: Sandbox, make: Make, tmp_path: Path) -> None:
    workbench, task = Workbench(tmp_path, place), make()
    bench = workbench.bench(step_cache=Kept(), verify_cache=Kept())
    first = workbench.solve(f"ep.run({FIX!r})\nep.submit()", bench, task).rollout
    assert (first.outcome, first.grade_cached) == (Outcome.SOLVED, False), first.detail
    other = (
        f"ep.run('echo noise > note.txt')\nep.run({FIX!r})\nep.run('rm note.txt; git commit -qam mine')\nep.submit()"
    )
    second = workbench.solve(other, bench, task).rollout
    assert (second.outcome, second.grade_cached) == (Outcome.SOLVED, True), second.detail
    third = workbench.solve(f"ep.run({FIX!r})\nep.write('more.txt', b'x')\nep.submit()", bench, task).rollout
    assert (third.outcome, third.grade_cached) == (Outcome.SOLVED, False), third.detail


def test_an_empty_change_is_not_evaluated(
    local: Sandbox, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench, task = Workbench(tmp_path, local), make()
    bench = workbench.bench(step_cache=Kept(), verify_cache=Kept())
    opened = Opened(local, monkeypatch)
    first = workbench.solve("ep.run('true')\nep.submit()", bench, task).rollout
    assert (first.outcome, first.reward) == (Outcome.FAILED_VERIFICATION, 0.0)
    before = opened.number
    second = workbench.solve("ep.run('touch ignored; rm ignored')\nep.submit()", bench, task).rollout
    assert (second.outcome, second.reward) == (Outcome.FAILED_VERIFICATION, 0.0)
    assert opened.number == before + 1  # the harness's own, and none to grade in


BAD = {
    "wrong": "sed -i 's|return max|return min|' calc/__init__.py",
    "nothing works": "echo 'raise SystemExit' > calc/__init__.py",
    "a runner of its own": "printf '#!/bin/sh\\necho \"The mean of nothing is 0. ... ok\"' > /usr/bin/python3",
    "an activate of its own": "echo 'exit 0' >> /opt/miniconda3/bin/activate",
    "a hook": "printf '#!/bin/sh\\ntouch /hooked' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
    "a reward": "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
    "tests of its own": "sed -i 's|calc.mean|int|; s|, 2)|, 0)|' tests/calc_tests/test_calc.py",
}


@pytest.mark.parametrize("command", BAD.values(), ids=BAD.keys())
def test_what_is_no_solution_is_none(local: Sandbox, make: Make, tmp_path: Path, command: str) -> None:
    workbench = Workbench(tmp_path, local)
    rollout = workbench.solve(f"ep.run({command!r})\nep.submit()", workbench.bench(), make()).rollout
    assert rollout.outcome is Outcome.FAILED_VERIFICATION, rollout.detail


def test_a_checkout_that_is_gone_is_not_passed(place: Sandbox, make: Make, tmp_path: Path) -> None:
    workbench = Workbench(tmp_path, place)
    rollout = workbench.solve("ep.run('rm -rf .git')\nep.submit()", workbench.bench(), make()).rollout
    assert (rollout.outcome, rollout.reward) == (Outcome.FAILED_VERIFICATION, None)
    assert "what was changed in /testbed cannot be told" in rollout.detail


def test_any_bytes_can_be_part_of_a_change(place: Sandbox, make: Make, tmp_path: Path) -> None:
    """The right fix reads its divisor from a file with a NUL, a lone carriage return and no UTF-8."""
    data = b"\xff\0\r\n1\r"
    fix = (
        "from pathlib import Path\n\n\ndef mean(values):\n"
        f"    assert Path(__file__).with_name('data.bin').read_bytes() == {data!r}\n"
        "    return sum(values) / max(len(values), 1)\n\n\ndef largest(values):\n    return max(values)\n"
    )
    body = f"ep.write('calc/data.bin', {data!r})\nep.write('calc/__init__.py', {fix.encode()!r})\nep.submit()"
    workbench = Workbench(tmp_path, place)
    rollout = workbench.solve(body, workbench.bench(), make()).rollout
    assert rollout.outcome is Outcome.SOLVED, rollout.detail


IMAGE = "echo built > built.txt"
"""What the image changes after the row's commit."""
BROKEN = {
    "no_environment": (IMAGE, "sed -i 's|env python3|env nothing|' tests/runtests.py"),
    "no checkout": ("git init -q &&", "exit 0;"),
    "killed": (IMAGE, "sed -i 's|^import sys|import os; os.kill(os.getpid(), 9)|' tests/runtests.py"),
}


@pytest.mark.parametrize(("sign", "change"), BROKEN.items(), ids=BROKEN.keys())
def test_a_broken_place_is_no_grade(local: Sandbox, make: Make, sign: str, change: tuple[str, str]) -> None:
    def broken(directory: Path) -> None:
        path = directory / "environment/Dockerfile"
        text = path.read_text()
        assert change[0] in text
        text = text.replace(*change)
        path.write_text(text.replace("> /opt/miniconda3/bin/activate", "> /opt/other") if "env" in sign else text)

    task = make(broken)
    with pytest.raises(VerifierFailure, match=sign) as caught:
        solve(local, task)
    assert caught.value.extra["output"]


@pytest.mark.docker
def test_want_of_memory_is_no_grade(make: Make, tmp_path: Path) -> None:
    """The tests go on after one of their processes was killed; what was lost is not the change's failure."""
    hungry = "sed -i 's|^import sys|import os; os.fork() or bytearray(10**9); os.wait(); raise SystemExit|'"

    def broken(directory: Path) -> None:
        path = directory / "environment/Dockerfile"
        path.write_text(path.read_text().replace(IMAGE, f"{hungry} tests/runtests.py"))

    task = make(broken)
    with closing(kinds.docker(tmp_path / "layers")) as sandbox, pytest.raises(VerifierFailure) as caught:
        solve(sandbox, task, Limits(memory_mb=128))
    assert caught.value.extra["rule"] == "out_of_memory", caught.value.message
