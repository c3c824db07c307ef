"""`certify model` on endpoints that keep their word, and on ones that do not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from harnesstrain.core.errors import Busy, Incomplete, Prerequisite, TransportFailure, UsageError
from harnesstrain.core.events import Bus, Event
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.llm import LlmRequest, Sampling
from harnesstrain.core.settings import load
from harnesstrain.llm.front import Front
from harnesstrain.llm.scripted import ScriptedModel
from harnesstrain.measure.context import Context
from harnesstrain.measure.trust import Ceiling, ask_sentinels, vetted
from harnesstrain.stages.certify import CertifiedModel, ModelSpec, certify_model, plan_model
from harnesstrain.store import Store

STEADY = (
    '{"settings": {"latency": 0.06, "max_running": 8, "context_length": 4096%s}}\n'
    '{"reply": "a harness is the program around a model"}\n'
)


class Heard:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)

    def lines(self, kind: str) -> list[str]:
        return [event.message for event in self.events if event.kind == kind]


Opener = Callable[..., Context]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens a project whose model follows a script, or is at a URL.  It has no harness: nothing is measured here."""
    made: list[Context] = []

    def make(script: str = STEADY % "", *, name: str = "rules.jsonl", url: str | None = None, **flags: Any) -> Context:
        rules = tmp_path / name
        rules.write_text(script)
        engine = {"llm.engine": "external", "llm.url": url} if url else {"llm.engine": "scripted", "llm.script": rules}
        settings = load(tmp_path, {}, {**engine, **flags})
        heard = Heard()
        context = Context(
            settings=settings,
            store=Store.open(tmp_path / ".ht", create=True),
            repo=cast(Any, None),
            state=tmp_path / ".ht",
            bus=Bus(heard),
        )
        context.heard = heard  # type: ignore[attr-defined]
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()
        context.store.close()


def lines(context: Context, kind: str = "gate.level") -> list[str]:
    heard: Heard = context.heard  # type: ignore[attr-defined]
    return heard.lines(kind)


def certified(context: Context, **spec: Any) -> CertifiedModel:
    return certify_model(context, ModelSpec(**{"depth": "quick", "max_running": 8, **spec}))


def test_a_steady_model_passes_at_every_concurrency(opened: Opener) -> None:
    context = opened()
    done = certified(context, depth="standard")
    assert done.certificate.result is Certified.EXACT
    assert [level.concurrency for level in done.finding.levels] == [1, 2, 4, 8]
    assert all(level.equal and not level.short and level.counted_by == "server" for level in done.finding.levels)
    assert (done.finding.largest, done.finding.tested, done.finding.failed_at) == (8, 8, None)
    assert done.finding.compared == ("text", "tool_calls", "token_ids", "logprobs")
    assert done.finding.restarted, "an engine in this process is started anew"
    said = lines(context)
    assert [line.split(":")[0] for line in said] == ["at 1", "at 2", "at 4", "at 8", "after a restart, at 8"]
    assert all("all equal" in line for line in said)
    assert context.store.certificates(kind="model") == [done.certificate]
    assert context.store.endpoint(done.certificate.endpoint or "").engine == "scripted"


@pytest.mark.parametrize("unstable", ["text", "logprobs"])
def test_output_that_depends_on_the_batch_is_bisected(opened: Opener, unstable: str) -> None:
    context = opened(STEADY % f', "unstable_above": 3, "unstable": "{unstable}"')
    done = certified(context)
    assert (done.finding.largest, done.finding.failed_at) == (3, 4)
    assert [(level.concurrency, level.equal) for level in done.finding.levels] == [
        (1, True),
        (2, True),
        (4, False),
        (3, True),
    ]
    assert done.certificate.result is Certified.EXACT, "up to three at once it is deterministic"
    first = done.finding.first
    assert first is not None
    assert (first.concurrency, first.axis) == (4, "concurrency")
    assert first.field == ("logprobs" if unstable == "logprobs" else "token_ids")
    assert first.reference != first.observed
    assert (done.certificate.recorded, done.certificate.observed) == (first.reference, first.observed)
    model, trust = vetted(ScriptedModel(context.settings.llm.script), Sampling(), context.store)  # type: ignore[arg-type]
    assert (trust.deterministic, trust.limit, model.endpoint().max_running) == (True, 3, 3)


RANDOM = """
import itertools
settings = {"deterministic": False}
numbers = itertools.count()
def reply(request):
    return f"answer {next(numbers)}"
"""


def test_a_model_that_never_repeats_itself_is_forked(opened: Opener) -> None:
    context = opened(RANDOM, name="rules.py")
    done = certified(context)
    assert done.certificate.result is Certified.FORKED
    assert (done.finding.largest, done.finding.failed_at) == (0, 1)
    assert [level.concurrency for level in done.finding.levels] == [1]
    assert done.finding.first is not None and done.finding.first.axis == "repeat"
    assert done.finding.sentinels == ()
    model, trust = vetted(ScriptedModel(context.settings.llm.script), Sampling(), context.store)  # type: ignore[arg-type]
    assert not trust.deterministic and not model.endpoint().deterministic


RESTART = """
import os, pathlib
place = pathlib.Path(__file__).with_suffix(".starts")
starts = len(place.read_text()) if place.exists() else 0
place.write_text("x" * (starts + 1))
settings = {"latency": 0.02, "max_running": 8}
def reply(request):
    return f"started {starts} times before"
"""


def test_a_model_that_a_restart_changes_is_forked(opened: Opener) -> None:
    done = certified(opened(RESTART, name="rules.py"), depth="standard", max_running=2)
    assert done.certificate.result is Certified.FORKED
    assert done.finding.first is not None and done.finding.first.axis == "restart"
    assert done.finding.largest == 0


def test_a_server_that_runs_fewer_at_once_is_not_certified_for_more(opened: Opener) -> None:
    model = ScriptedModel([{"reply": "a harness", "delay": 0.05}])
    with Front(model, max_running=2) as front:
        context = opened(url=front.url)
        done = certified(context)
    assert [(level.concurrency, level.reached) for level in done.finding.levels] == [(1, 1), (2, 2), (4, 2)]
    assert done.finding.levels[-1].counted_by == "server"
    assert (done.finding.asked, done.finding.tested, done.finding.largest) == (8, 2, 2)
    assert "only 2 ran at once" in lines(context)[-1]
    assert not done.finding.restarted, "somebody else's server is left running"


def test_a_served_model_and_the_same_in_process_share_a_certificate(opened: Opener) -> None:
    context = opened()
    done = certified(context)
    with Front(ScriptedModel(context.settings.llm.script)) as front:  # type: ignore[arg-type]
        again = certified(opened(url=front.url))
    assert again.inherited
    assert again.certificate == done.certificate


def test_a_certificate_is_asked_for_once(opened: Opener) -> None:
    context = opened()
    first = certified(context)
    assert not first.inherited
    assert certified(context).inherited
    assert certified(context, max_running=4).inherited, "less was tested along"
    assert not certified(context, depth="standard").inherited, "more is asked"
    assert not certified(context, again=True).inherited
    assert certified(opened(**{"llm.sampling.seed": 99})).inherited
    assert not certified(opened(**{"llm.sampling.temperature": 1.0})).inherited, "another sampling is another path"


def test_a_plan_asks_for_nothing(opened: Opener) -> None:
    context = opened()
    planned = plan_model(context, ModelSpec(depth="quick", max_running=6))
    assert planned.concurrencies == (1, 2, 4, 6)
    assert "short" in planned.probes and planned.inherited is None
    assert context.store.certificates() == []
    done = certified(context)
    assert plan_model(context, ModelSpec(depth="quick")).inherited == done.certificate.id


def test_bad_input_and_infrastructure(opened: Opener) -> None:
    with pytest.raises(UsageError, match="no depth 'deep'"):
        certified(opened(), depth="deep")
    with pytest.raises(TransportFailure):
        certified(opened('{"match": "list", "error": "transport"}\n{"reply": "x"}\n'))
    context = opened()
    assert context.store.certificates() == [], "a failure of the infrastructure certifies nothing"
    context.stop = threading.Event()
    context.stop.set()
    with pytest.raises(Incomplete):
        certified(context)
    assert context.store.certificates() == []


def test_two_gates_do_not_disturb_each_other(opened: Opener) -> None:
    context = opened()
    fingerprint = ScriptedModel(context.settings.llm.script).endpoint().fingerprint  # type: ignore[arg-type]
    with context.store.lease(f"gate {fingerprint[:16]}"), pytest.raises(Busy):
        certified(context)


def test_a_swapped_model_is_noticed(opened: Opener) -> None:
    """The script's identity is a fixed one here: the swap is one that no fingerprint shows."""
    done = certified(opened())
    assert [one.probe.name for one in done.finding.sentinels] == ["short", "boundary 65", "tool call"]
    same = ScriptedModel([{"reply": "a harness is the program around a model"}])
    ask_sentinels(same, done.finding.sentinels)
    other = ScriptedModel([{"reply": "a harness is a set of straps"}])
    with pytest.raises(Prerequisite, match="is not the one that was certified: to 'short'") as raised:
        ask_sentinels(other, done.finding.sentinels)
    assert "--again" in (raised.value.hint or "")


def test_sentinels_are_asked_before_the_first_live_request_of_a_run(opened: Opener) -> None:
    context = opened()
    certified(context)
    inner = ScriptedModel(context.settings.llm.script)  # type: ignore[arg-type]
    model, trust = vetted(inner, Sampling(), context.store)
    assert trust.certificate is not None and inner.calls == 0
    request = LlmRequest(messages=({"role": "user", "content": "x"},))
    model.complete(request)
    assert inner.calls == 3, "two sentinels and the request"
    model.complete(request)
    assert inner.calls == 4
    model.arm()
    assert inner.calls == 4, "a run that asks nothing is not checked"
    model.complete(request)
    assert inner.calls == 7


def test_no_certificate_no_sentinels(opened: Opener) -> None:
    context = opened()
    inner = ScriptedModel(context.settings.llm.script)  # type: ignore[arg-type]
    model, trust = vetted(inner, Sampling(), context.store)
    model.arm()
    model.complete(LlmRequest(messages=({"role": "user", "content": "x"},)))
    assert inner.calls == 1
    assert trust.certificate is None and trust.limit is None


def test_requests_beyond_the_limit_wait(opened: Opener) -> None:
    context = opened(STEADY % ', "unstable_above": 3')
    certified(context)
    inner = ScriptedModel(context.settings.llm.script)  # type: ignore[arg-type]
    model, _ = vetted(inner, Sampling(), context.store)
    request = LlmRequest(messages=({"role": "user", "content": "x"},))
    threads = [threading.Thread(target=model.complete, args=(request,)) for _ in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inner.calls == 9 + 2
    assert inner.peak == 3


def test_the_ceiling_is_said_once() -> None:
    heard = Heard()
    ceiling = Ceiling(3, Bus(heard))
    assert [ceiling.of(2), ceiling.of(8, tell=False)] == [2, 3]
    assert heard.events == []
    assert [ceiling.of(8), ceiling.of(8)] == [3, 3]
    assert heard.lines("warning") == [
        "3 of 8 rollouts at once: the model is certified for 3; `ht certify model --max-running 8` tests more"
    ]
    assert Ceiling(None, Bus(heard)).of(99) == 99


@pytest.mark.model
def test_the_embedded_engine_passes(opened: Opener) -> None:
    from harnesstrain.llm.embedded import library
    from harnesstrain.llm.models.pull import pull

    try:
        library.check_machine()
        pull("smollm2-135m")
    except Prerequisite as error:
        pytest.skip(f"the embedded engine or its small model is not available: {error}")
    flags = {"llm.engine": "embedded", "llm.script": None, "llm.model": "smollm2-135m", "llm.context_length": 1024}
    done = certified(opened(**flags), depth="standard", max_running=4)
    assert done.certificate.result is Certified.EXACT
    assert (done.finding.largest, done.finding.restarted, done.finding.cold) == (4, True, True)
    assert "logprobs" in done.finding.compared
