"""What the determinism gate of a model endpoint asks, and what it hears."""

from __future__ import annotations

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import LlmRequest, Reply


class Probe(Record):
    """One request that is asked again and again."""

    name: str
    """What it exercises: `short`, `boundary 64`, `family 1`, `tool call`, `long` …"""
    request: LlmRequest


class Heard(Record):
    """A reply to a probe."""

    probe: str
    """The probe's name."""
    reply: Reply


class Wave(Record):
    """What came of asking several probes at one concurrency."""

    concurrency: int
    """Requests that were to run at once."""
    in_flight: int
    """Most requests that were under way at once, seen from the client."""
    running: int | None = None
    """Most requests that the server worked on at once, where it tells."""
    heard: tuple[Heard, ...]
    """In the order of the probes."""

    @property
    def reached(self) -> int:
        """The concurrency that was really exercised, as far as anybody can tell."""
        return self.in_flight if self.running is None else min(self.in_flight, self.running)


class Sentinel(Record):
    """A probe whose reply is known.  Asked again when a run starts: another reply means another model."""

    probe: Probe
    reply: Reply
