"""Steps in the order of their arrival, some of them made when they are asked for."""

from __future__ import annotations

from harnesstrain.core.records.rollout import Source, Step, StepKind
from harnesstrain.rollout.recorder import Recorder


def step(index: int, source: Source = Source.CACHE) -> Step:
    """An answered model call."""
    return Step(index=index, kind=StepKind.LLM, source=source, request_digest=f"{index:064x}")


def test_a_step_for_later_is_made_once_and_is_like_any_other() -> None:
    now, later = Recorder(), Recorder()
    made: list[int] = []

    def make(index: int) -> Step:
        made.append(index)
        return step(index)

    for recorder in (now, later):
        assert [recorder.reserve() for _ in range(3)] == [0, 1, 2]
    for index in (2, 0):  # answers come in any order
        now.add(step(index))
        later.add_later(index, lambda index=index: make(index))  # type: ignore[misc]
    for recorder in (now, later):
        recorder.add(Step(index=1, kind=StepKind.RUN))
    assert made == []
    assert later.steps() == now.steps()
    assert (later.cached, later.chain, later.requests) == (2, now.chain, now.requests)
    assert made == [0, 2]


def test_what_ran_is_told_with_a_step_for_later() -> None:
    recorder = Recorder()
    recorder.ran(["agent.py:1"])
    index = recorder.reserve()
    recorder.add_later(index, lambda: step(index))
    recorder.ran(["agent.py:9"])
    assert [(one.ran, one.ran_after) for one in recorder.steps()] == [(("agent.py:1",), ("agent.py:9",))]
