"""P3: environment executions of a candidate whose actions differ from action k of N on.

N - k + 1 actions are new; to reach them, those since the nearest kept state are executed again.  Measured on the
scripted environment with and without kept states and on the real local sandbox; one task each.
"""

from __future__ import annotations

from harnesstrain.core import confinement
from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.workbench import KEEPING, LOCAL, SCRIPTED, Workbench
from tests.bench.workload import Shape

ID = "P3"
TARGET = 0.0
PEER = "3,960 (40 tasks, k = 99): all N again"
KINDS = {"scripted with states": KEEPING, "scripted without": SCRIPTED, "local": LOCAL}


def measure(scale: Scale) -> Result:
    """Executions beyond N - k + 1 and the distance from the nearest kept state: the worst of all."""
    steps = scale.steps
    points = sorted({2, steps // 2, steps - 1})
    worst, never_all, told = 0, True, []
    for name, sandbox in KINDS.items():
        if sandbox == LOCAL and (why := confinement.unavailable()) is not None:
            told.append(f"{name}: not measured ({why})")
            continue
        counts = []
        with Workbench(Shape(1, steps), sandbox=sandbox) as bench:
            bench.evaluate()
            keeps = bench.trainer.context.devices.capabilities.snapshots
            for action in points:
                done = bench.evaluate(bench.diverging(action))
                distance = action - 1 - max(done.opened, default=0)
                excess = done.executions - (steps - action + 1) - distance
                worst = max(worst, excess)
                never_all = never_all and (done.executions < steps or not keeps)
                counts.append(f"k={action}: {done.executions} ({distance} from the nearest state)")
        told.append(f"{name}: {', '.join(counts)}")
    detail = f"N={steps}; executions {'; '.join(told)}"
    return Result.at_most(ID, worst, TARGET, "executions too many", detail, also=never_all)
