"""P2: many short tasks whose every answer is known.  Wall clock: nothing may wait for its turn to start."""

from __future__ import annotations

import os
import statistics

from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.workbench import Workbench
from tests.bench.workload import Shape

ID = "P2"
TARGET = 1.5
PEER = "55 s"
PEER_VALUE = 55.0
TASKS, STEPS = 12, 5


def measure(scale: Scale) -> Result:
    """Seconds by the clock; the median of the repeats."""
    shape = Shape(min(TASKS, scale.tasks), min(STEPS, scale.steps))
    jobs = max(2, os.cpu_count() or 1)
    with Workbench(shape, jobs=jobs) as bench:
        bench.evaluate()
        warm = [bench.evaluate(fresh=f"warm {number}") for number in range(scale.repeats)]
    walls = [one.spent.wall for one in warm]
    last = warm[-1]
    detail = (
        f"{shape.tasks} tasks of {shape.steps} cached steps, {jobs} at once; {last.spent.cpu:.2f} s CPU, "
        f"{last.calls} model calls, {last.executions} executions"
    )
    also = not (last.calls or last.executions)
    return Result.at_most(ID, statistics.median(walls), TARGET, "s wall", detail, also=also)
