"""Drives the gate: probes asked alone and cold, and many at once in shuffled orders.  Compares nothing."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harnesstrain.core.errors import BadRequest, ContextOverflow, HtError, Incomplete, LlmFailure, Refused
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.gate import Heard, Probe, Wave
from harnesstrain.core.records.llm import LlmRequest, Reply
from harnesstrain.llm.base import Abortable, Inspectable, Model, Tallied


@dataclass(frozen=True)
class Reference:
    """What each probe answers alone and cold."""

    probes: tuple[Probe, ...]
    """Those that were answered, in the order given."""
    replies: Mapping[str, Reply]
    """By probe name."""
    skipped: Mapping[str, str]
    """Probes that the endpoint refuses, and its words."""

    def cold(self, later: Iterable[Reply]) -> bool | None:
        """Whether nothing kept was used.  None where the server does not tell: neither here nor in `later` replies
        does it say that anything was.
        """
        if any(reply.usage.cached for reply in self.replies.values()):
            return False
        return True if any(reply.usage.cached for reply in later) else None


def ask(model: Model, request: LlmRequest, *, cold: bool = False) -> Reply:
    """One reply with everything that can be had of it.  `cold`: evaluated without what is kept of its prompt."""
    if isinstance(model, Inspectable):
        return model.inspect(request, cold=cold)
    return model.complete(request)


def reference(model: Model, probes: Sequence[Probe], stop: StopSignal) -> Reference:
    """Ask each probe alone and cold.  A probe that the endpoint refuses is skipped.

    Raises LlmFailure (infrastructure, or everything was refused), Incomplete (stopped).
    """
    replies: dict[str, Reply] = {}
    skipped: dict[str, str] = {}
    refusal: LlmFailure | None = None
    for probe in probes:
        _refuse_if_stopped(stop)
        try:
            replies[probe.name] = ask(model, probe.request, cold=True)
        except (BadRequest, ContextOverflow) as error:
            refusal = error
            skipped[probe.name] = error.message
        except Refused as error:  # some say so of what a probe asks for: tools, where no such model has any
            if not replies:
                raise
            known = next(one for one in probes if one.name in replies)
            ask(model, known.request, cold=True)
            skipped[probe.name] = error.message
    if refusal is not None and not replies:
        raise refusal
    return Reference(tuple(probe for probe in probes if probe.name in replies), replies, skipped)


def together(
    model: Model,
    probes: Sequence[Probe],
    concurrency: int,
    stop: StopSignal,
    *,
    rounds: int = 1,
    abort: bool = False,
) -> Wave:
    """Ask `probes` at `concurrency`: a closed loop that starts with copies of one probe and goes on with all of them
    in a shuffled order, prompts with a common beginning and without mixed.  `abort`: one of the first requests at once
    is a long one that is given up in the middle, where the model can give one up.

    The order is a function of the arguments.  Raises LlmFailure, Incomplete (stopped).
    """
    loop = _Loop(model, _order(probes, concurrency, rounds), concurrency, stop)
    if abort and concurrency > 1 and isinstance(model, Abortable):
        loop.abandoned = _long(probes)
    before = model.crowds() if isinstance(model, Tallied) else None
    heard = loop.run()
    after = model.crowds() if isinstance(model, Tallied) else None
    places = {probe.name: place for place, probe in enumerate(probes)}
    return Wave(
        concurrency=concurrency,
        in_flight=loop.peak,
        running=None if before is None or after is None else _peak(before, after),
        heard=tuple(sorted(heard, key=lambda one: places[one.probe])),
    )


def _order(probes: Sequence[Probe], concurrency: int, rounds: int) -> list[Probe]:
    order: list[Probe] = []
    for number in range(rounds):
        chance = random.Random(f"{concurrency}/{number}")
        if concurrency > 1:
            order += [probes[(concurrency + number) % len(probes)]] * concurrency
        mixed: list[Probe] = []
        while len(mixed) < max(len(probes), concurrency):
            mixed += probes
        chance.shuffle(mixed)
        order += mixed
    return order


def _long(probes: Sequence[Probe]) -> LlmRequest:
    """The probe with the longest prompt, made to go on for longer than it will be let."""
    longest = max(probes, key=lambda probe: len(str(probe.request.messages))).request
    sampling = longest.sampling.model_copy(update={"max_tokens": 8 * longest.sampling.max_tokens})
    return longest.model_copy(update={"sampling": sampling})


def _peak(before: Sequence[int], after: Sequence[int]) -> int:
    """The largest crowd that a request joined between two tallies."""
    grown = [size for size, count in enumerate(after, start=1) if count > (before[size - 1 : size] or (0,))[0]]
    return max(grown, default=0)


def _refuse_if_stopped(stop: StopSignal) -> None:
    if stop.is_set():
        raise Incomplete("the certification of the model was stopped", hint="the same command starts it again")


class _Loop:
    """`concurrency` threads that each ask the next probe as soon as their last one is answered."""

    def __init__(self, model: Model, order: Sequence[Probe], concurrency: int, stop: StopSignal) -> None:
        self._model = model
        self._waiting = deque(order)
        self._stop = stop
        self._lock = threading.Lock()
        self._under_way = 0
        self._failure: BaseException | None = None
        self._heard: list[Heard] = []
        self._width = min(concurrency, len(order))
        self._start = threading.Barrier(self._width)
        self._half = threading.Event()
        """Half of the requests are answered, or no more will be."""
        self._total = len(order)
        self.abandoned: LlmRequest | None = None
        """A request that is asked first, by one of the threads, and given up."""
        self.peak = 0
        """Most requests under way at once so far."""

    def run(self) -> list[Heard]:
        """Everything that was heard.  Raises the first failure once nothing is under way."""
        threads = [threading.Thread(target=self._ask, name=f"gate-{n}", daemon=True) for n in range(self._width)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        _refuse_if_stopped(self._stop)
        return self._heard

    def _ask(self) -> None:
        if self._start.wait() == 0 and self.abandoned is not None:
            self._give_up(self.abandoned)
        while (probe := self._next()) is not None:
            try:
                reply = ask(self._model, probe.request)
            except BaseException as failure:
                with self._lock:
                    self._failure = self._failure or failure
                    self._under_way -= 1
                self._half.set()
                return
            with self._lock:
                self._under_way -= 1
                self._heard.append(Heard(probe=probe.name, reply=reply))
                if len(self._heard) * 2 >= self._total:
                    self._half.set()

    def _give_up(self, request: LlmRequest) -> None:
        """Ask and stop when half of the others are answered.  What it answers does not matter, nor whether."""
        assert isinstance(self._model, Abortable)
        self._enter()
        with suppress(HtError):
            self._model.complete_until(request, self._half)
        with self._lock:
            self._under_way -= 1

    def _enter(self) -> None:
        with self._lock:
            self._under_way += 1
            self.peak = max(self.peak, self._under_way)

    def _next(self) -> Probe | None:
        with self._lock:
            if self._failure is not None or self._stop.is_set() or not self._waiting:
                self._half.set()
                return None
            probe = self._waiting.popleft()
        self._enter()
        return probe
