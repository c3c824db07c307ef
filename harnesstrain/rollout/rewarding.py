"""The reward of a task with several steps, from the grades of those that were graded."""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import Task


def combined(task: Task, grades: Sequence[Grade]) -> Grade:
    """One grade: `mean` over the steps that were graded, or that of the last (`final`).

    `rewards` names each graded step with its reward, and each named reward combined the same way: one that a step
    lacks counts 0.  Raises ValueError without any grade.
    """
    if not grades:
        raise ValueError("no step was graded")
    used = grades[-1:] if task.strategy == "final" else grades
    names = sorted({name for grade in used for name in grade.rewards})
    rewards = {name: _mean([grade.rewards.get(name, 0.0) for grade in used]) for name in names}
    rewards |= {step.name: grade.reward for step, grade in zip(task.steps, grades, strict=False)}
    return Grade(
        reward=_mean([grade.reward for grade in used]),
        rewards=rewards,
        output=grades[-1].output,
        duration=sum(grade.duration for grade in grades),
        notes=tuple(dict.fromkeys(note for grade in grades for note in grade.notes)),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
