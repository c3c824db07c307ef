"""What a run's process is at work on right now: told beside its lease, gone with it."""

from __future__ import annotations

from pydantic import ValidationError

from harnesstrain.core.records.base import Record


class Flight(Record):
    """One attempt at a cell that was started and has no result yet."""

    task: str
    seed: int
    attempt: int = 1
    since: float
    """When it was started, seconds since 1970.  For display only."""


class UnderWay(Record):
    """The attempts that are under way together."""

    flights: tuple[Flight, ...] = ()


def told(detail: str) -> tuple[Flight, ...]:
    """The flights in the detail of a lease; none when it says nothing that this program understands."""
    if not detail:
        return ()
    try:
        return UnderWay.model_validate_json(detail).flights
    except ValidationError:
        return ()
