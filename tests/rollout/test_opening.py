"""Opening an environment: the task's files are in it, and it is healthy by Docker's rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.records.rollout import Outcome
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.core.records.task import Artifact, Environment, Healthcheck
from harnesstrain.rollout.carrying import carry
from harnesstrain.rollout.opening import opened, unhealthy
from harnesstrain.sandbox.base import Sandbox
from tests.rollout.making import Workbench

FINE, BAD = RunResult(exit_code=0), RunResult(exit_code=1, stdout=b"still\nstarting\n")
LATE = RunResult(exit_code=124, timed_out=True)


class Patient:
    """Answers checks one after another, and keeps the time that passes in sleep."""

    def __init__(self, answers: Sequence[RunResult]) -> None:
        self.answers = iter(answers)
        self.asked: list[float | None] = []
        self.now = 0.0

    def run(self, command: str, timeout: float | None = None, **more: Any) -> RunResult:
        self.asked.append(timeout)
        return next(self.answers)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


CHECK = Healthcheck(command="ready", interval=5, timeout=3, retries=2)
STARTING = CHECK.model_copy(update={"start_period": 4.0, "start_interval": 1.0})


@pytest.mark.parametrize(
    ("check", "answers", "reason", "waited"),
    [
        (CHECK, [FINE], None, 0),
        (CHECK, [BAD, FINE], None, 5),
        (CHECK, [BAD, BAD], "`ready` failed 2 times (exit 1): starting", 5),
        (CHECK, [BAD, LATE], "`ready` failed 2 times (ran past 3 s)", 5),
        (STARTING, [BAD, BAD, BAD, FINE], None, 3),
        (STARTING, [BAD, BAD, BAD, BAD, BAD, FINE], None, 9),
        (STARTING, [BAD] * 6, "`ready` failed 2 times (exit 1): starting", 9),
    ],
)
def test_health_is_waited_for(check: Healthcheck, answers: list[RunResult], reason: str | None, waited: float) -> None:
    session: Any = Patient(answers)
    assert unhealthy(session, check, clock=session.clock, sleep=session.sleep) == reason
    assert session.now == waited
    assert set(session.asked) == {3}


@pytest.mark.local
def test_an_unhealthy_environment_is_no_measurement(workbench: Workbench) -> None:
    check = Healthcheck(command="false", interval=0.01, retries=2)
    task = workbench.task(environment=Environment(workdir="/app", healthcheck=check, digest="5" * 64))
    done = workbench.solve("ep.run('touch done')\nep.submit()", task=task)
    assert done.rollout.outcome is Outcome.INFRA_SANDBOX
    assert done.rollout.detail == "the environment is not healthy: `false` failed 2 times (exit 1)"


@pytest.mark.local
def test_files_beside_a_ready_image_lie_in_the_working_directory(local: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/one").write_text("1")
    with closing(opened(local, Environment(workdir="/app", files=tmp_path))) as session:
        assert session.run("cat data/one").stdout == b"1"


@pytest.fixture
def pair(local: Sandbox) -> Iterator[tuple[Any, Any]]:
    """Two environments."""
    with closing(local.open(Environment(workdir="/app"))) as one, closing(local.open(Environment())) as other:
        yield one, other


@pytest.mark.local
def test_artifacts_are_carried_to_the_same_paths(pair: tuple[Any, Any]) -> None:
    source, target = pair
    source.run("mkdir -p out/deep; echo 1 > out/a; echo 2 > out/deep/b.o; ln -s a out/l; echo x > tool; chmod +x tool")
    found = [Artifact(source="/app/out", exclude=("*.o",)), Artifact(source="/app/tool"), Artifact(source="/app/none")]
    assert carry(found, source, target) == ("/app/none",)
    assert target.run("cd /app && find . | sort").stdout == b".\n./out\n./out/a\n./out/deep\n./out/l\n./tool\n"
    assert target.run("/app/tool; cat /app/out/l").stdout.endswith(b"1\n")
    assert target.run("test -x /app/tool && readlink /app/out/l").stdout == b"a\n"


@pytest.mark.local
@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("ln -s /etc/hostname out", b"/app/out\n"),  # the content of its own file, as if it had been copied
        ("mkdir out; ln -s /etc/hostname out/l; mkfifo out/p; echo 1 > out/a", b"/app/out\n/app/out/a\n"),
        ("mkdir out; ln -s .. out/up; echo 1 > out/a", b"/app/out\n/app/out/a\n"),
    ],
)
def test_what_leads_out_of_an_artifact_is_not_carried(pair: tuple[Any, Any], command: str, seen: bytes) -> None:
    source, target = pair
    assert source.run(command).exit_code == 0
    carry([Artifact(source="/app/out")], source, target)
    assert target.run("find /app/out -type l").stdout == b""
    assert target.run("find /app/out 2>/dev/null | sort").stdout == seen
