"""P1: a step of a run whose every answer is known.  Processor time of all processes; everything recorded.

The same commit is measured again under another salt: caches answer, records and traces are written anew.  Once more
with a harness that counts the tokens of its conversation before every model call, with the embedded engine's own
tokenizer.
"""

from __future__ import annotations

import statistics

from harnesstrain.core.errors import HtError
from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.workbench import AGENT, Measured, Workbench
from tests.bench.workload import Shape

ID = "P1"
TARGET = 0.8
COUNTING_TARGET = 1.3
PEER = "7.2 to 9.2 ms; 131 to 145 ms with token counting"
PEER_VALUE = 7.2
COUNTING = "tests.bench.counting:CountingEngine"


def measure(scale: Scale) -> Result:
    """Milliseconds a step: the median of the repeats."""
    shape = Shape(scale.tasks, scale.steps)
    with Workbench(shape) as bench:
        cold = bench.evaluate()
        warm = [bench.evaluate(fresh=f"warm {number}") for number in range(scale.repeats)]
    middle = sorted(warm, key=lambda one: one.per_step)[len(warm) // 2]
    counting, said = _counting(scale)
    detail = f"{shape.tasks} tasks of {shape.steps} steps; {_told(middle)}; cold {cold.per_step:.2f} ms; {said}"
    met = counting is not None and counting <= COUNTING_TARGET and not (middle.calls or middle.executions)
    return Result.at_most(ID, middle.per_step, TARGET, "ms CPU", detail, also=met)


def _counting(scale: Scale) -> tuple[float | None, str]:
    agent = AGENT.replace("#COUNT", "ep.count_tokens(messages)")
    shape = Shape(max(1, scale.tasks // 10), scale.steps)
    try:
        with Workbench(shape, engine=COUNTING, agent=agent, environ={"HT_LLM_MODEL": scale.model}) as bench:
            bench.evaluate()
            warm = [bench.evaluate(fresh=f"warm {number}").per_step for number in range(scale.repeats)]
    except HtError as error:
        return None, f"with token counting not measured: {error.message}"
    value = statistics.median(warm)
    return value, f"with token counting {value:.2f} ms ({shape.tasks} tasks, target {COUNTING_TARGET} ms)"


def _told(one: Measured) -> str:
    parts = f"driver {one.share(one.spent.own):.2f} ms, harness and launcher {one.share(one.spent.others):.2f} ms"
    counts = f"{one.calls} model calls, {one.executions} executions, {one.grades} gradings"
    return f"{parts}, {one.spent.wall:.1f} s wall; {counts}"
