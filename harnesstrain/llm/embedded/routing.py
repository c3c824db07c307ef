"""Which worker takes which request: the one that holds the longest prefix of it, unless waiting costs more.

Pure bookkeeping over prompt text, no tokens and no processes.  Whatever is decided here, replies are the same; only
the time they take differs.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from harnesstrain.core.ports import StopSignal
from harnesstrain.llm.embedded.jobs import Job

BLOCK = 256
"""Characters of prompt per routing block."""

DECODE_COST = 10
"""Characters of prompt that take as long to evaluate as one completion token to generate."""

EXPECTED_REPLY = 100
"""Tokens that a reply is expected to have, at most."""


def chain(text: str) -> tuple[int, ...]:
    """Rolling checksums of the whole blocks of a text: two texts share as many blocks as leading items."""
    links: list[int] = []
    link = 0
    for start in range(0, len(text) - BLOCK + 1, BLOCK):
        link = zlib.crc32(text[start : start + BLOCK].encode("utf-8", "replace"), link)
        links.append(link)
    return tuple(links)


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Characters of the common prefix, in whole blocks."""
    size = min(len(one), len(other))
    for place in range(size):
        if one[place] != other[place]:
            return place * BLOCK
    return size * BLOCK


@dataclass(eq=False)
class Ticket:
    """One request on its way."""

    job: Job
    stop: StopSignal | None = None
    links: tuple[int, ...] = ()
    size: int = 0
    """Characters of the prompt."""

    def __post_init__(self) -> None:
        text = self.job.prompt.text
        self.links, self.size = chain(text), len(text)


@dataclass
class Seat:
    """What is known of one worker."""

    started: bool = False
    """Whether its process runs."""
    running: Ticket | None = None
    load: int = 0
    """What its running request was expected to take, in characters of prompt."""
    held: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Prefixes it holds, by the request that left them."""

    def reach(self, ticket: Ticket) -> int:
        """Characters of the ticket's prompt that this worker holds, or will when its running job is done."""
        links = [*self.held.values(), *([self.running.links] if self.running else [])]
        return max((shared(link, ticket.links) for link in links), default=0)

    def cost(self, ticket: Ticket) -> int:
        """What the ticket takes here, in characters of prompt."""
        reply = min(ticket.job.sampling.max_tokens, EXPECTED_REPLY)
        return ticket.size - self.reach(ticket) + DECODE_COST * reply


class Desk:
    """Waiting requests and the workers' seats.  Not thread-safe: the pool holds its lock around each call."""

    def __init__(self, seats: int) -> None:
        self.seats = [Seat() for _ in range(seats)]
        self._waiting: list[Ticket] = []

    def add(self, ticket: Ticket) -> None:
        """Queue a request."""
        self._waiting.append(ticket)

    def withdraw(self, ticket: Ticket) -> bool:
        """Take a waiting request back; False when it is no longer waiting."""
        if ticket in self._waiting:
            self._waiting.remove(ticket)
            return True
        return False

    def drain(self) -> list[Ticket]:
        """Take every waiting request back."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def take(self, number: int) -> Ticket | None:
        """The request that idle worker `number` should run now, oldest first; it is running there afterwards."""
        seat = self.seats[number]
        backlog = [other.load for other in self.seats]
        for ticket in self._waiting:
            best = self._best(ticket)
            mine = self.seats[best].reach(ticket) - seat.reach(ticket)
            if best == number or backlog[best] > mine:
                self._waiting.remove(ticket)
                seat.load, seat.running = seat.cost(ticket), ticket
                return ticket
            backlog[best] += self.seats[best].cost(ticket)
        return None

    def finish(self, number: int, dropped: tuple[int, ...]) -> None:
        """Worker `number` is done with its request and gave up the prefixes `dropped`."""
        seat = self.seats[number]
        if seat.running is not None:
            seat.held[seat.running.job.key] = seat.running.links
            seat.load, seat.running = 0, None
        for key in dropped:
            seat.held.pop(key, None)

    def reset(self, number: int) -> None:
        """Worker `number` has a new process that holds nothing yet.  A request it runs stays with it."""
        seat = self.seats[number]
        seat.started = True
        seat.held.clear()

    def _best(self, ticket: Ticket) -> int:
        """The worker for a ticket if nobody had to wait: longest prefix, then idle, then already started."""

        def preference(number: int) -> tuple[int, bool, bool, int]:
            seat = self.seats[number]
            return (seat.reach(ticket), seat.running is None, seat.started, -number)

        return max(range(len(self.seats)), key=preference)
