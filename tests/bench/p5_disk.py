"""P5: what a run leaves on disk, against what was said in it.

Trace files and the records' whole database of a store with one run, after everything was closed; the caches are told
beside it.  The texts are those of the scripted environment, with the noise of every execution.
"""

from __future__ import annotations

from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.workbench import Workbench
from tests.bench.workload import Shape

ID = "P5"
TARGET = 1.5
PEER = "10.3 KB per step at 100 steps, 49.5 KB at 1,000"


def measure(scale: Scale) -> Result:
    """The larger of the two ratios."""
    ratios, told = [], []
    for shape in (Shape(max(1, scale.tasks // 4), scale.steps), Shape(1, scale.long)):
        with Workbench(shape) as bench:
            done = bench.evaluate()
            said = bench.bytes_said(done.run)
            bench.trainer.close()
            traces, records, caches = (bench.bytes_kept(name) for name in ("traces", "store.db", "cache.db"))
        ratios.append((traces + records) / said)
        told.append(
            f"{shape.steps} steps: {ratios[-1]:.2f} ({(traces + records) / done.steps / 1000:.2f} KB a step; traces "
            f"{traces:,}, records {records:,}, said {said:,} bytes; caches beside it {caches:,})"
        )
    return Result.at_most(ID, max(ratios), TARGET, "bytes per byte said", "; ".join(told))
