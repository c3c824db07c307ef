"""P6: a candidate that changes nothing but a comment."""

from __future__ import annotations

from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.workbench import Workbench
from tests.bench.workload import Shape

ID = "P6"
TARGET = 10.0


def measure(scale: Scale) -> Result:
    """Seconds by the clock."""
    shape = Shape(scale.tasks, scale.steps)
    with Workbench(shape) as bench:
        bench.evaluate()
        done = bench.evaluate(bench.commented())
    detail = (
        f"{shape.tasks} tasks of {shape.steps} steps: {done.calls} model calls, {done.executions} executions, "
        f"{len(done.opened)} environments, {done.grades} gradings; {done.spent.cpu:.1f} s CPU"
    )
    nothing = not (done.calls or done.executions or done.grades)
    return Result.at_most(ID, done.spent.wall, TARGET, "s wall", detail, also=nothing)
