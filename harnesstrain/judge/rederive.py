"""Deriving a recorded verdict again from its rollouts, offline."""

from __future__ import annotations

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.judge.base import Criterion
from harnesstrain.judge.comparison import Comparison

_FROM_CLOCKS = {"base": {"recorded_time", "usage"}, "cand": {"recorded_time", "usage"}}
"""Not part of a verdict's identity: recorded durations and server-side cache hits."""


class Mismatch(Record):
    """One field that comes out differently."""

    field: str
    recorded: str
    derived: str


def rederive(criterion: Criterion, comparison: Comparison, recorded: Verdict) -> tuple[Mismatch, ...]:
    """The fields of `recorded` that its rollouts do not yield; empty when the verdict holds."""
    derived = criterion.judge(comparison).model_dump(mode="json", exclude=_FROM_CLOCKS)
    before = recorded.model_dump(mode="json", exclude=_FROM_CLOCKS)
    return tuple(
        Mismatch(field=name, recorded=str(before[name]), derived=str(derived[name]))
        for name in before
        if before[name] != derived[name]
    )
