"""How large a measurement is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes of the synthetic workload.  Targets belong to `FULL`; `TINY` shows that a measurement works."""

    tasks: int = 40
    steps: int = 100
    """Environment actions of a rollout; as many model calls, and one more that submits."""
    long: int = 1000
    """Steps of a long rollout."""
    repeats: int = 3
    turns: int = 30
    """Of a growing conversation with the embedded engine."""
    growth: tuple[int, int, int] = (1, 4, 16)
    growth_steps: int = 50
    """Steps, times `growth`, where steps grow."""
    growth_tasks: int = 4
    """Tasks, times `growth`, where tasks grow."""
    many_tasks: int = 500
    """Tasks of a run whose driver's memory is measured."""
    many_steps: int = 100
    """Their steps."""
    history: int = 30
    """Epochs of the history that is looked at."""
    model: str = "smollm2-135m"
    """Of the catalogue, where a real tokenizer or engine is measured."""


FULL = Scale()
SMALL = Scale(tasks=4, steps=20, long=100, repeats=1, turns=6, growth_steps=5, many_tasks=64, many_steps=10, history=4)
TINY = Scale(
    tasks=2,
    steps=4,
    long=8,
    repeats=1,
    turns=2,
    growth=(1, 2, 3),
    growth_steps=2,
    growth_tasks=1,
    many_tasks=8,
    many_steps=2,
    history=2,
)
SCALES = {"full": FULL, "small": SMALL, "tiny": TINY}
