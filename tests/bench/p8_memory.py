"""P8: memory of the driver while many rollouts run at once, and whether it grows with the number of tasks.

The driver is a process of its own, with a scripted model and environment and 32 rollouts at once; the harnesses are
real processes and are not counted.  The figure is the driver's largest resident memory.  It is taken for a quarter of
the tasks too: flat means that four times the tasks add less than a tenth of the bound.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

from tests.bench import workload
from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.workbench import Workbench
from tests.bench.workload import Shape

ID = "P8"
TARGET = 400.0
UNIT = "MB"
AT_ONCE = 32
GROWTH = TARGET / 10
"""Megabytes."""
GLANCING = "tests.bench.counting:GlancingEngine"


def measure(scale: Scale) -> Result:
    """Megabytes at the most."""
    few, some = _peak(max(1, scale.many_tasks // 4), scale.many_steps)
    many, steps = _peak(scale.many_tasks, scale.many_steps)
    detail = (
        f"{many:.0f} MB with {scale.many_tasks} tasks of {scale.many_steps} steps ({steps} in all), {few:.0f} MB with "
        f"{max(1, scale.many_tasks // 4)} ({some}); {min(AT_ONCE, scale.many_tasks)} rollouts at once"
    )
    return Result.at_most(ID, many, TARGET, UNIT, detail, also=many - few <= GROWTH)


def _peak(tasks: int, steps: int) -> tuple[float, int]:
    """Largest resident memory in megabytes of a fresh process that measures so much; how many steps it recorded."""
    argv = [sys.executable, "-m", __name__, str(tasks), str(steps)]
    done = subprocess.run(argv, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    found = json.loads(done.stdout)
    return found["megabytes"], found["steps"]


def _measured(tasks: int, steps: int) -> None:
    """The workload's texts are made anew each time: a cache of them would lie in the driver's memory."""
    setattr(workload, "text", workload.text.__wrapped__)  # noqa: B010
    with Workbench(Shape(tasks, steps), engine=GLANCING, jobs=AT_ONCE) as bench:
        measured = bench.evaluate()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"megabytes": peak, "steps": measured.steps}))


if __name__ == "__main__":
    _measured(*map(int, sys.argv[1:]))
