"""The determinism gate of a model endpoint: up to how many requests at once do its replies stay the same?

Replies in, findings out.  The reference is each probe asked alone and cold; every other reply is compared with it bit
for bit, in everything that both sides give.  A concurrency counts only as far as it was really reached.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.gate import Sentinel, Wave
from harnesstrain.core.records.llm import Endpoint, Reply, Sampling

VERSION = 1
"""Of the gate.  Raised when it asks or compares something else; older certificates then count no more."""

SHOWN = 120
"""Characters of one side of a mismatch."""
SHOWN_TOKENS = 8


class Difference(Record):
    """Where two replies to one request first differ."""

    field: str
    """token_ids, content, reasoning, tool_calls, finish_reason or logprobs."""
    position: int
    """Index of the first token, character or call that differs."""
    reference: str
    """What the reference has there, bounded."""
    observed: str


class Mismatch(Difference):
    """A reply that was not the reference's."""

    probe: str
    concurrency: int
    """Requests that were to run at once."""
    axis: str
    """What was changed: repeat (asked alone and cold once more), cache (alone, with what the server kept),
    concurrency, restart."""


class Level(Record):
    """One concurrency and how it went."""

    concurrency: int
    """Requests that were to run at once."""
    reached: int
    """Most that really ran at once, as far as anybody can tell."""
    counted_by: str
    """Who says so: `server`, or `client` where the server does not tell."""
    requests: int
    mismatches: int
    first: Mismatch | None = None

    @property
    def equal(self) -> bool:
        """Whether every reply was the reference's."""
        return self.mismatches == 0

    @property
    def short(self) -> bool:
        """Whether fewer requests ran at once than were to."""
        return self.reached < self.concurrency


class Finding(Record):
    """What the gate found: the `detail` of a model certificate."""

    gate: int = VERSION
    depth: str
    """quick, standard or thorough."""
    sampling: dict[str, Any]
    """The part of the sampling that the replies depend on, seed and length apart."""
    asked: int
    """The concurrency that was to be tested."""
    tested: int
    """The largest concurrency that was really reached."""
    largest: int
    """The largest concurrency that was reached with every reply equal; 0: not even one request at a time."""
    failed_at: int | None = None
    """The smallest concurrency that was reached with an unequal reply."""
    first: Mismatch | None = None
    """The first unequal reply of the smallest concurrency that has one."""
    levels: tuple[Level, ...] = ()
    compared: tuple[str, ...] = ()
    """What the replies gave to compare."""
    cold: bool | None = None
    """Whether the reference was evaluated without anything kept; None: the server does not tell."""
    restarted: bool = False
    """Whether replies were compared across a restart of the engine."""
    skipped: dict[str, str] = Field(default_factory=dict)
    """Probes that the endpoint refuses, and its words."""
    sentinels: tuple[Sentinel, ...] = ()


class Trust(Record):
    """How far an endpoint's replies can be relied on."""

    deterministic: bool
    limit: int | None = None
    """Requests it may be sent at once; None: no limit is known."""
    certificate: Certificate | None = None
    finding: Finding | None = None

    @property
    def sentinels(self) -> tuple[Sentinel, ...]:
        """What to ask when a run starts."""
        return self.finding.sentinels if self.finding is not None and self.deterministic else ()


def difference(reference: Reply, observed: Reply) -> Difference | None:
    """The first difference of two replies to one request; None when they are equal in all that both give.

    Ids of tool calls, usage and duration do not count.  Logprobs are compared as bits.
    """
    if reference.token_ids is not None and observed.token_ids is not None:
        place = _first(reference.token_ids, observed.token_ids)
        if place is not None:
            return _difference("token_ids", place, _ids(reference.token_ids, place), _ids(observed.token_ids, place))
    for name in ("reasoning", "content"):
        left, right = getattr(reference, name), getattr(observed, name)
        place = _first(left, right)
        if place is not None:
            return _difference(name, place, _around(left, place), _around(right, place))
    calls, others = _calls(reference), _calls(observed)
    place = _first(calls, others)
    if place is not None:
        return _difference("tool_calls", place, "".join(calls[place : place + 1]), "".join(others[place : place + 1]))
    if reference.finish_reason != observed.finish_reason:
        return _difference("finish_reason", 0, reference.finish_reason, observed.finish_reason)
    if reference.logprobs is not None and observed.logprobs is not None:
        bits, others_bits = ([value.hex() for value in reply.logprobs or ()] for reply in (reference, observed))
        place = _first(bits, others_bits)
        if place is not None:
            return _difference("logprobs", place, _value(reference.logprobs, place), _value(observed.logprobs, place))
    return None


def compared(replies: Iterable[Reply]) -> tuple[str, ...]:
    """What the replies give to compare."""
    every = list(replies)
    names = ["text", "tool_calls"]
    if every and all(reply.token_ids is not None for reply in every):
        names.append("token_ids")
    if every and all(reply.logprobs is not None for reply in every):
        names.append("logprobs")
    return tuple(names)


def level(wave: Wave, reference: Mapping[str, Reply], axis: str) -> Level:
    """One wave against the reference replies by probe name.  `axis`: see Mismatch."""
    found: list[Mismatch] = []
    for heard in wave.heard:
        unequal = difference(reference[heard.probe], heard.reply)
        if unequal is not None:
            more = {"probe": heard.probe, "concurrency": wave.concurrency, "axis": axis}
            found.append(Mismatch(**unequal.model_dump(), **more))
    return Level(
        concurrency=wave.concurrency,
        reached=wave.reached,
        counted_by="client" if wave.running is None else "server",
        requests=len(wave.heard),
        mismatches=len(found),
        first=found[0] if found else None,
    )


def next_concurrency(levels: Sequence[Level], limit: int) -> int | None:
    """What to test next: 1, 2, 4, … `limit` while all is equal, then bisection.  None: the answer is known.

    A level that fell short ends the ascent: the server takes no more at once.
    """
    equal = max((one.concurrency for one in levels if one.equal), default=0)
    unequal = min((one.concurrency for one in levels if not one.equal), default=None)
    if unequal is not None:
        return (equal + unequal) // 2 if unequal - equal > 1 else None
    if equal >= limit or any(one.short for one in levels):
        return None
    return min(2 * equal, limit) if equal else 1


def failed_at(levels: Iterable[Level]) -> int | None:
    """The smallest concurrency that was reached with an unequal reply."""
    return min((one.reached for one in levels if not one.equal), default=None)


def largest(levels: Sequence[Level]) -> int:
    """The largest concurrency that was reached with every reply equal, below any that failed; 0: none."""
    failed = failed_at(levels)
    return max((one.reached for one in levels if one.equal and (failed is None or one.reached < failed)), default=0)


def certificate_id(fingerprint: str, sampling: Sampling) -> str:
    """The id of a model certificate: endpoint, gate version, sampling."""
    parts = {"kind": "model", "endpoint": fingerprint, "gate": VERSION, "sampling": relevant(sampling)}
    return digest(parts)


def relevant(sampling: Sampling) -> dict[str, Any]:
    """The part of a sampling that a certificate is bound to.  Seeds and lengths vary from request to request."""
    return sampling.model_dump(mode="json", exclude={"seed", "max_tokens", "stop"})


def certificate(endpoint: Endpoint, sampling: Sampling, finding: Finding) -> Certificate:
    """The certificate of a finding.  `forked`: equal requests get unequal replies even one at a time."""
    first = finding.first
    return Certificate(
        id=certificate_id(endpoint.fingerprint, sampling),
        kind="model",
        endpoint=endpoint.fingerprint,
        result=Certified.EXACT if finding.largest else Certified.FORKED,
        recorded=first.reference if first else None,
        observed=first.observed if first else None,
        detail=finding.model_dump(mode="json"),
    )


def trust(endpoint: Endpoint, sampling: Sampling, certificates: Iterable[Certificate]) -> Trust:
    """What the certificates say of an endpoint under a sampling.

    A certificate outweighs what the endpoint claims.  Without one the claim holds.  The limit is the certified
    concurrency; an endpoint that is deterministic by construction has one only where the gate saw it fail.
    """
    wanted = certificate_id(endpoint.fingerprint, sampling)
    found = next((one for one in reversed(list(certificates)) if one.id == wanted), None)
    if found is None:
        return Trust(deterministic=endpoint.deterministic)
    finding = Finding.model_validate(found.detail)
    if found.result is Certified.FORKED:
        return Trust(deterministic=False, certificate=found, finding=finding)
    limit = None if endpoint.deterministic and finding.failed_at is None else finding.largest
    return Trust(deterministic=True, limit=limit, certificate=found, finding=finding)


def _first(left: Sequence[Any], right: Sequence[Any]) -> int | None:
    """Index of the first item that differs; None when all are equal."""
    if left == right:
        return None
    shared = min(len(left), len(right))
    return next((place for place in range(shared) if left[place] != right[place]), shared)


def _difference(field: str, position: int, reference: str, observed: str) -> Difference:
    return Difference(field=field, position=position, reference=reference[:SHOWN], observed=observed[:SHOWN])


def _ids(ids: Sequence[int], place: int) -> str:
    return " ".join(str(ident) for ident in ids[place : place + SHOWN_TOKENS]) or "(ended)"


def _around(text: str, place: int) -> str:
    start = max(0, place - SHOWN // 3)
    return text[start : start + SHOWN]


def _value(values: Sequence[float], place: int) -> str:
    return repr(values[place]) if place < len(values) else "(ended)"


def _calls(reply: Reply) -> tuple[str, ...]:
    return tuple(json.dumps([call.name, call.arguments], ensure_ascii=False) for call in reply.tool_calls)
