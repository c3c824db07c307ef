"""Processor time of the driver for one live step: a model call and a command, everything recorded.

One rollout of 120 steps less one of 20, so that starts do not count.  The model follows a script; the sandbox is
`local`; every command prints 2,000 bytes.  What the harness and the sandbox spend is told beside it.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from harnesstrain.stages import evaluate
from harnesstrain.trainer import Trainer
from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.project import Project, make_project

ID = "live-step"
TARGET = 10.0
FEW, MANY = 20, 120
AGENT = """\
from ht_sdk import Episode, serve

def solve(ep: Episode) -> None:
    messages = [{"role": "user", "content": ep.task.instruction}]
    for _ in range(int(ep.task.instruction.split()[-1])):
        reply = ep.complete(messages)
        ep.note(valid=True)
        shown = ep.run("head -c 2000 /dev/zero | tr '\\\\0' x")
        messages += [reply.message(), {"role": "user", "content": shown.stdout}]
    ep.submit()

serve(solve)
"""
SETTINGS = "\n[budgets]\nsteps = 1000\nactions = 1000\ntokens = 1000000000\n"


def measure(scale: Scale) -> Result:  # noqa: ARG001
    """Milliseconds of processor time a step."""
    with tempfile.TemporaryDirectory(prefix="ht-bench-") as place:
        cache = Path(place, "cache")
        cache.mkdir()
        tasks = (f"steps-{FEW}", f"steps-{MANY}")
        project = make_project(Path(place), cache, tasks=tasks, settings=SETTINGS)
        for count in (FEW, MANY):
            (project.root / "tasks" / f"steps-{count}" / "instruction.md").write_text(f"Take {count}\n")
        (project.root / "agent" / "main.py").write_text(AGENT)
        (project.root / "rules.jsonl").write_text('{"reply": "ok"}\n')
        project.git("add", "-A")
        project.git("commit", "-qm", "Take many steps")
        driver, children, wall = _spent(project)
    detail = f"{MANY - FEW} steps of a model call and a command; beside it {children:.1f} ms of harness and sandbox"
    return Result.at_most(ID, driver, TARGET, "ms CPU", f"{detail}, {wall:.1f} ms wall")


def _spent(project: Project) -> tuple[float, float, float]:
    """Milliseconds a step: of this process, of its children, by the clock."""
    figures = []
    with Trainer(
        project.root / "ht.toml", environ=project.environment(HT_JOBS="1", HT_CONTEXT_LENGTH="1000000")
    ) as trainer:
        context = trainer.context
        commit = context.repo.head()
        for count in (FEW, FEW, MANY):  # the first one warms up
            spec = evaluate.EvaluateSpec(commit=commit, include=(f"steps-{count}",), fresh=str(len(figures)))
            before = _now()
            done = evaluate.run(context, spec)
            assert done.done == 1
            (rollout,) = context.store.rollouts(done.run)
            assert (rollout.llm_calls, rollout.actions) == (count, count), rollout.detail
            figures.append([after - earlier for after, earlier in zip(_now(), before, strict=True)])
    few, many = figures[1], figures[2]
    driver, children, wall = (1000 * (b - a) / (MANY - FEW) for a, b in zip(few, many, strict=True))
    return driver, children, wall


def _now() -> tuple[float, float, float]:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), children.ru_utime + children.ru_stime, time.monotonic()
