"""What a measurement says."""

from __future__ import annotations

from harnesstrain.core.records.base import Record


class Result(Record):
    """One figure against its target."""

    id: str
    value: float
    unit: str
    target: float
    """At most this."""
    met: bool
    detail: str

    @staticmethod
    def at_most(id: str, value: float, target: float, unit: str, detail: str) -> Result:
        """A figure that should not exceed its target."""
        return Result(id=id, value=round(value, 3), unit=unit, target=target, met=value <= target, detail=detail)
