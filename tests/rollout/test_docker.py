"""Rollouts in containers: no state is kept there, so what no cache holds is reached by executing everything again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.rollout import Outcome, Source, StepKind
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import Sandbox
from tests.rollout.making import Workbench
from tests.rollout.walking import Kept
from tests.sandbox import kinds

pytestmark = [pytest.mark.docker, pytest.mark.local]


@pytest.fixture
def container(local: object, tmp_path: Path) -> Iterator[Sandbox]:
    """Docker.  Skips, aloud, where there is no engine; the harness needs its jail."""
    with closing(kinds.docker(tmp_path)) as sandbox:
        yield sandbox


def test_cold_warm_and_diverging(container: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workbench = Workbench(tmp_path, container)
    environment = Environment(image=kinds.SMALL, workdir="/app", digest=uuid.uuid4().hex * 2)
    task = workbench.task(environment=environment)
    bench = workbench.bench(step_cache=Kept(), verify_cache=Kept())
    body = "ep.run('echo one > f')\nep.write('g', b'two')\nep.run('cat f g; touch done')\nep.submit()"
    cold = workbench.solve(body, bench, task)
    assert (cold.rollout.outcome, cold.rollout.executions) == (Outcome.SOLVED, 3)
    other = workbench.solve(body.replace("cat f g", "cat g f"), bench, task)
    assert (other.rollout.outcome, other.rollout.executions) == (Outcome.SOLVED, 3)
    sources = [step.source for step in other.trace.steps if step.kind in (StepKind.RUN, StepKind.WRITE)]
    assert sources == [Source.CACHE, Source.CACHE, Source.LIVE]
    assert other.trace.steps[2].stdout == b"twoone\n"

    def refuse(*args: object, **kwargs: object) -> None:
        raise SandboxFailure("no environment may be opened here")

    monkeypatch.setattr(container, "open", refuse)
    warm = workbench.solve(body, bench, task)
    assert warm.rollout.from_caches
    assert warm.rollout.measurement == cold.rollout.measurement
