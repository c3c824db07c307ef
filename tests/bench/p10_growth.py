"""P10: how cost grows with steps, tasks and epochs, each at 1, 4 and 16 times.

The figure is a power: 1 is linear, 2 quadratic.  It is fitted to processor time of all processes beyond what is
fixed.  Steps and tasks: runs whose answers are all known, and for steps also runs in which everything is live; the
model then takes the same time whatever the length of a prompt.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.spent import exponent, spent
from tests.bench.workbench import KEEPING, Measured, Workbench
from tests.bench.workload import Shape

ID = "P10"
GLANCING = "tests.bench.counting:GlancingEngine"
TARGET = 1.15
"""Linear, but for noise."""
PATCH = """\
Subject: Remark {number}

diff --git a/agent/note{number}.py b/agent/note{number}.py
new file mode 100644
--- /dev/null
+++ b/agent/note{number}.py
@@ -0,0 +1 @@
+# {number}
"""


def measure(scale: Scale) -> Result:
    """The largest power of all."""
    grown: dict[str, Callable[[int], tuple[float, str]]] = {
        "steps (cached)": lambda times: _run(Shape(2, scale.growth_steps * times), scale, warm=True),
        "steps (live)": lambda times: _run(Shape(2, scale.growth_steps * times), scale, warm=False),
        "tasks": lambda times: _run(Shape(scale.growth_tasks * times, min(10, scale.steps)), scale, warm=True),
        "epochs": lambda times: _epochs(times, min(10, scale.steps)),
    }
    powers, told = [], []
    for name, cost in grown.items():
        found = [cost(times) for times in scale.growth]
        seconds = tuple(one for one, _ in found)
        powers.append(exponent((seconds[0], seconds[1], seconds[2]), scale.growth))
        shown = ", ".join(f"{one:.2f}" for one in seconds)
        counts = " / ".join(said for _, said in found)
        told.append(f"{name} {powers[-1]:.2f} ({shown} s CPU; {counts})")
    times = "/".join(str(one) for one in scale.growth)
    return Result.at_most(ID, max(powers), TARGET, "power of growth", f"at {times} times: {'; '.join(told)}")


def _run(shape: Shape, scale: Scale, *, warm: bool) -> tuple[float, str]:
    with Workbench(shape, sandbox=KEEPING, engine=GLANCING) as bench:
        first = bench.evaluate()
        if not warm:
            return first.spent.cpu, _counts(first)
        again = [bench.evaluate(fresh=f"warm {number}") for number in range(scale.repeats)]
    best = min(again, key=lambda one: one.spent.cpu)
    return best.spent.cpu, _counts(best)


def _epochs(count: int, steps: int) -> tuple[float, str]:
    with Workbench(Shape(2, steps)) as bench:
        patches = bench.root / "patches"
        for number in range(count):
            (patches / f"{number:03d}.patch").write_text(PATCH.format(number=number))
        before = spent()
        seen = 0
        for loss in bench.trainer.epochs(count):
            loss.backward()
            bench.trainer.step()
            seen += 1
        cost = spent() - before
    if seen != count:
        raise RuntimeError(f"{seen} of {count} epochs gave a verdict")
    return cost.cpu, f"{seen} verdicts"


def _counts(one: Measured) -> str:
    return f"{one.steps} steps, {one.calls} calls, {one.executions} executions"
