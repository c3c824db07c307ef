"""What a measurement says."""

from __future__ import annotations

from harnesstrain.core.records.base import Record


class Result(Record):
    """One figure against its target."""

    id: str
    value: float | None
    """None: it cannot be measured on this machine; `detail` says why."""
    unit: str
    target: float
    """At most this, or at least this where `detail` begins so."""
    met: bool | None
    detail: str

    @staticmethod
    def at_most(id: str, value: float, target: float, unit: str, detail: str, *, also: bool = True) -> Result:
        """A figure that should not exceed its target.  `also`: what else has to hold."""
        met = value <= target and also
        return Result(id=id, value=round(value, 3), unit=unit, target=target, met=met, detail=detail)

    @staticmethod
    def at_least(id: str, value: float, target: float, unit: str, detail: str, *, also: bool = True) -> Result:
        """A figure that should reach its target."""
        met = value >= target and also
        return Result(id=id, value=round(value, 3), unit=unit, target=target, met=met, detail=f"at least; {detail}")

    @staticmethod
    def unmeasured(id: str, target: float, unit: str, why: str) -> Result:
        """A figure that cannot be had here."""
        return Result(id=id, value=None, unit=unit, target=target, met=None, detail=f"not measured: {why}")
