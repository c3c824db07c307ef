"""P4: a live step in Docker: a model call and a command, everything recorded, beyond what the command itself costs.

One rollout of many steps less one of few, so that starts do not count: processor time of driver and harness.  Taken
off: the same commands, executed one after another on one session of the same sandbox, which is one connection; and what
the stand-in for the model takes in the driver's own process.
"""

from __future__ import annotations

import os

from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import Session
from harnesstrain.sandbox.docker import engine_answers
from tests.bench.counting import GlancingModel
from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.spent import spent
from tests.bench.workbench import Measured, Workbench
from tests.bench.workload import Shape, command

ID = "P4"
TARGET = 2.0
UNIT = "ms CPU"
GLANCING = "tests.bench.counting:GlancingEngine"
"""A model that takes the same time whatever the length of a prompt: it is no part of the step."""


def measure(scale: Scale) -> Result:
    """Milliseconds a step."""
    host = os.environ.get("HT_TEST_DOCKER") or os.environ.get("DOCKER_HOST") or None
    why = engine_answers(host)
    if why is not None:
        return Result.unmeasured(ID, TARGET, UNIT, f"no Docker engine: {why}")
    few, many = Shape(1, max(1, scale.steps // 5)), Shape(1, scale.steps + max(1, scale.steps // 5))
    environ = {name: os.environ[name] for name in ("DOCKER_HOST", "HOME") if name in os.environ}
    if host is not None:
        environ["DOCKER_HOST"] = os.environ["DOCKER_HOST"] = host
    short, _, model_short = _live(few, environ)
    long, raw, model_long = _live(many, environ)
    steps = long.steps - short.steps
    model = 1000 * (model_long - model_short) / steps
    own = 1000 * (long.spent.own - short.spent.own) / steps
    harness = 1000 * (long.spent.others - short.spent.others) / steps
    detail = (
        f"{steps} live steps in Docker: driver {own:.2f} ms, harness {harness:.2f} ms, of which a raw command on one "
        f"connection takes {raw:.2f} ms and the model {model:.2f} ms; {long.calls} model calls, "
        f"{long.executions or long.steps} executions"
    )
    return Result.at_most(ID, own + harness - raw - model, TARGET, UNIT, detail)


def _live(shape: Shape, environ: dict[str, str]) -> tuple[Measured, float, float]:
    """A live run (the second, so that everything is built), milliseconds of a raw command, seconds of the model."""
    with Workbench(shape, sandbox="docker", engine=GLANCING, environ={**environ, "HT_CACHE": "off"}) as bench:
        bench.evaluate()
        before = GlancingModel.busy
        measured = bench.evaluate(fresh="again")
        model = GlancingModel.busy - before
        sandbox = bench.trainer.context.devices.bench.sandbox
        name = shape.names[0]
        folder = bench.root / "tasks" / name / "environment"
        session = sandbox.open(Environment(context=folder, digest=f"{name}", env={}))
        try:
            _raw(session, shape, name)
            return measured, _raw(session, shape, name), model
        finally:
            session.close()


def _raw(session: Session, shape: Shape, name: str) -> float:
    before = spent()
    for action in range(1, shape.steps + 1):
        session.run(command(shape, name, action), timeout=120)
    return 1000 * (spent() - before).own / shape.steps
