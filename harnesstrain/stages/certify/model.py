"""Certify the model endpoint: the determinism gate.  Its certificate holds for a fingerprint and a sampling.

Each probe is asked alone and cold; then all of them again alone, at 2, 4, … requests at once, and after a restart where
the engine runs in this process.  A level that differs is bisected.  No cache of ours is read or written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.gate import Probe, Sentinel, Wave
from harnesstrain.core.records.llm import Endpoint, Sampling, Usage
from harnesstrain.judge import gate as judge
from harnesstrain.judge.gate import Finding, Level, Mismatch
from harnesstrain.llm.base import Model
from harnesstrain.llm.connect import ConnectSpec, Way, connect, route
from harnesstrain.llm.gate import Reference, ask, reference, together
from harnesstrain.llm.probes import DEPTHS, Depth, probes
from harnesstrain.measure.context import Context
from harnesstrain.measure.endpoint import connect_spec

SENTINELS = 3
"""Probes that a certificate keeps with their replies: the shortest."""


class ModelSpec(Record):
    """What is asked of the gate."""

    depth: str = "standard"
    """quick, standard or thorough."""
    max_running: int | None = None
    """Requests at once, at most; None: what the endpoint says that it takes."""
    again: bool = False
    """Ask also where a certificate holds already."""


class CertifiedModel(Record):
    """The certificate of the endpoint in use."""

    certificate: Certificate
    finding: Finding
    model: str
    inherited: bool
    """It held already; nothing was asked."""


class GatePlan(Record):
    """What the gate would ask."""

    model: str
    endpoint: str
    concurrencies: tuple[int, ...]
    """Levels, while all is equal."""
    probes: tuple[str, ...]
    inherited: str | None
    """Id of a certificate that holds already; then nothing would be asked."""


def run(context: Context, spec: ModelSpec) -> CertifiedModel:
    """Run the gate and record its certificate, unless one holds that tested as much.

    Raises UsageError (no such depth), Prerequisite (no model), LlmFailure (infrastructure: nothing is certified), Busy
    (another gate asks the same endpoint), Incomplete (stopped).
    """
    depth = _depth(spec)
    sampling = context.settings.llm.sampling.record()
    with _Subject(_connection(context, spec)) as subject:
        endpoint = subject.model.endpoint()
        limit = spec.max_running or endpoint.max_running
        known = None if spec.again else _known(context, endpoint, sampling, depth, limit)
        if known is not None:
            finding = Finding.model_validate(known.detail)
            return CertifiedModel(certificate=known, finding=finding, model=endpoint.model, inherited=True)
        with context.store.lease(f"gate {endpoint.fingerprint[:16]}"):
            finding = _Gate(context, subject, depth, sampling, limit).run()
        certificate = judge.certificate(endpoint, sampling, finding)
        context.store.put_endpoint(endpoint)
        context.store.put_certificate(certificate)
    return CertifiedModel(certificate=certificate, finding=finding, model=endpoint.model, inherited=False)


def plan(context: Context, spec: ModelSpec) -> GatePlan:
    """What `run` would ask.  The endpoint is asked what it is, and counts tokens; nothing is completed or written."""
    depth = _depth(spec)
    sampling = context.settings.llm.sampling.record()
    with _Subject(_connection(context, spec)) as subject:
        endpoint = subject.model.endpoint()
        limit = spec.max_running or endpoint.max_running
        known = None if spec.again else _known(context, endpoint, sampling, depth, limit)
        levels: list[Level] = []
        while (number := judge.next_concurrency(levels, limit)) is not None:
            level = Level(concurrency=number, reached=number, counted_by="client", requests=0, mismatches=0)
            levels.append(level)
        return GatePlan(
            model=endpoint.model,
            endpoint=endpoint.fingerprint,
            concurrencies=tuple(level.concurrency for level in levels),
            probes=tuple(probe.name for probe in probes(subject.model, sampling, depth)),
            inherited=known.id if known is not None else None,
        )


class _Subject(AbstractContextManager["_Subject"]):
    """The model under test, and how to start it anew."""

    def __init__(self, asked: ConnectSpec) -> None:
        self._asked = asked
        self.restarts = route(asked).way is Way.IN_PROCESS
        self.model: Model = connect(asked)

    def restart(self) -> None:
        """Close the engine and start it anew."""
        self.model.close()
        self.model = connect(self._asked)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.model.close()


class _Gate:
    """One passage of an endpoint through the gate."""

    def __init__(self, context: Context, subject: _Subject, depth: Depth, sampling: Sampling, limit: int) -> None:
        self._context = context
        self._subject = subject
        self._depth = depth
        self._sampling = sampling
        self._limit = limit
        self._waves: list[Wave] = []
        self._levels: list[Level] = []

    def run(self) -> Finding:
        """Ask, compare, bisect."""
        asked = probes(self._subject.model, self._sampling, self._depth)
        self._say(f"reference: {len(asked)} probes, each alone and cold")
        known = reference(self._subject.model, asked, self._context.stop)
        for name, words in known.skipped.items():
            self._say(f"'{name}' is left out, the endpoint refuses it: {words}")
        while (concurrency := judge.next_concurrency(self._levels, self._limit)) is not None:
            self._levels.append(self._level(known, concurrency, "concurrency" if concurrency > 1 else "cache"))
        largest = judge.largest(self._levels)
        restarted = bool(largest) and self._depth.restart and self._subject.restarts
        if restarted:
            self._subject.restart()
            again = self._level(known, largest, "restart", rounds=1)
            if not again.equal:
                self._levels.append(again)
                largest = 0
        return self._finding(known, largest, restarted)

    def _level(self, known: Reference, concurrency: int, axis: str, *, rounds: int | None = None) -> Level:
        model, stop = self._subject.model, self._context.stop
        count = rounds or self._depth.rounds
        wave = together(model, known.probes, concurrency, stop, rounds=count, abort=self._depth.abort)
        endpoint = model.endpoint()
        width = endpoint.capacity or endpoint.max_running
        if width < wave.reached:
            wave = wave.model_copy(update={"running": width})
        self._waves.append(wave)
        level = judge.level(wave, known.replies, axis)
        if axis == "cache" and level.first is not None:
            level = level.model_copy(update={"first": self._alone(known, level.first)})
        self._context.bus.emit("gate.level", _sentence(level, axis), axis=axis, **level.model_dump(mode="json"))
        return level

    def _alone(self, known: Reference, first: Mismatch) -> Mismatch:
        """Why a probe that was asked alone differs: because of what the server kept, or whatever it keeps."""
        probe = _named(known.probes, first.probe)
        again = judge.difference(known.replies[probe.name], ask(self._subject.model, probe.request, cold=True))
        if again is None:
            return first
        return first.model_copy(update={"axis": "repeat", **again.model_dump()})

    def _finding(self, known: Reference, largest: int, restarted: bool) -> Finding:
        unequal = sorted((level for level in self._levels if not level.equal), key=lambda level: level.concurrency)
        replies = list(known.replies.values())
        heard = [one.reply for wave in self._waves for one in wave.heard]
        stored = known.probes[: SENTINELS - 1] + tuple(p for p in known.probes[SENTINELS - 1 :] if p.request.tools)
        return Finding(
            depth=self._depth.name,
            sampling=judge.relevant(self._sampling),
            asked=self._limit,
            tested=max(level.reached for level in self._levels),
            largest=largest,
            failed_at=judge.failed_at(self._levels),
            first=unequal[0].first if unequal else None,
            levels=tuple(self._levels),
            compared=judge.compared([*replies, *heard]),
            cold=known.cold(heard),
            restarted=restarted,
            skipped=dict(known.skipped),
            sentinels=tuple(_sentinel(probe, known) for probe in stored) if largest else (),
        )

    def _say(self, message: str) -> None:
        self._context.bus.emit("gate.note", message)


def _sentinel(probe: Probe, known: Reference) -> Sentinel:
    reply = known.replies[probe.name].model_copy(update={"duration": 0.0, "usage": Usage()})
    return Sentinel(probe=probe, reply=reply)


def _sentence(level: Level, axis: str) -> str:
    where = "after a restart, " if axis == "restart" else ""
    text = f"{where}at {level.concurrency}: {level.requests} requests, "
    if level.first is None:
        text += "all equal"
    else:
        first = level.first
        text += f"{level.mismatches} differ: '{first.probe}' in {first.field} {first.position}"
    if level.short:
        text += f" (only {level.reached} ran at once)"
    return text


def _named(asked: Sequence[Probe], name: str) -> Probe:
    return next(probe for probe in asked if probe.name == name)


def _connection(context: Context, spec: ModelSpec) -> ConnectSpec:
    asked = connect_spec(context.settings, context.state, context.environ)
    return asked.model_copy(update={"max_running": spec.max_running}) if spec.max_running else asked


def _depth(spec: ModelSpec) -> Depth:
    if spec.depth not in DEPTHS:
        msg = f"the gate knows no depth '{spec.depth}'"
        raise UsageError(msg, hint=f"one of {', '.join(DEPTHS)}")
    return DEPTHS[spec.depth]


def _known(context: Context, endpoint: Endpoint, sampling: Sampling, depth: Depth, limit: int) -> Certificate | None:
    """The certificate that holds and that tested at least as much."""
    found = judge.trust(endpoint, sampling, context.store.certificates(kind="model"))
    if found.certificate is None or found.finding is None:
        return None
    order = list(DEPTHS)
    deep = order.index(found.finding.depth) >= order.index(depth.name) if found.finding.depth in order else False
    settled = found.certificate.result is Certified.FORKED or found.finding.failed_at is not None
    return found.certificate if settled or (deep and found.finding.asked >= limit) else None
