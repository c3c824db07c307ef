"""A recorded rollout played back: a harness that repeats itself, and ones that do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.rollout import Outcome
from harnesstrain.core.records.run import Budgets
from harnesstrain.llm.script import Settings
from harnesstrain.rollout.bench import Bench, Finished
from harnesstrain.rollout.playback import Played, Recorded, play
from harnesstrain.rollout.reexecution import reexecute
from tests.rollout.making import Workbench

pytestmark = pytest.mark.local

BUSY = """
messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": ep.task.instruction}]
tools = [{"type": "function", "function": {"name": "sh", "parameters": {"type": "object"}}}]
ep.note(started=True, where=ep.task.workdir)
for number in range(3):
    reply = ep.complete(messages, tools, max_tokens=50)
    out = ep.run("echo " + reply.content, timeout=5, stdin=b"x")
    messages += [reply.message(), {"role": "user", "content": out.stdout}]
ep.write("a/b.bin", bytes(range(256)))
assert ep.read("a/b.bin") == bytes(range(256))
try:
    ep.read("nothing")
except FileFault as fault:
    ep.note(**fault.data)
ep.run("touch done")
ep.submit("here you are")
"""


def nothing(messages: Sequence[Any]) -> int:
    raise AssertionError("no tokens are counted")


def again(workbench: Workbench, finished: Finished, bench: Bench, **changes: Any) -> Played:
    """Play back what `finished` recorded, with the program that is there now."""
    recorded = Recorded(
        rollout=finished.rollout,
        trace=finished.trace,
        regime=bench.regime,
        endpoint=bench.model.endpoint(),
        workdir="/app",
    )
    cell = workbench.cell((workbench.place / "tree" / "main.py").read_text(), seed=finished.rollout.seed)
    return play(cell, recorded, changes.get("count", nothing), isolated=workbench.isolated)


def played(workbench: Workbench, body: str, bench: Bench | None = None, **changes: Any) -> Played:
    """Run a harness once, then play it back."""
    bench = bench or workbench.bench()
    return again(workbench, workbench.solve(body, bench), bench, **changes)


def test_a_harness_that_repeats_itself_needs_no_model_and_no_sandbox(workbench: Workbench) -> None:
    bench = workbench.bench()
    finished = workbench.solve(BUSY, bench)
    assert finished.rollout.outcome is Outcome.SOLVED
    assert workbench.model is not None
    calls = workbench.model.calls
    found = again(workbench, finished, bench)
    assert (found.result, found.played) == (Certified.EXACT, len(finished.trace.steps))
    assert workbench.model.calls == calls


@pytest.mark.parametrize("grading", ["submitted", "final_state"])
def test_budgets_and_failures_of_the_model_come_back(workbench: Workbench, grading: str) -> None:
    body = """
    messages = [{"role": "user", "content": "x"}]
    try:
        ep.complete(messages * 2000)
    except ContextOverflow as over:
        ep.note(said=str(over))
    while True:
        messages += [ep.complete(messages).message(), {"role": "user", "content": "more"}]
    """
    bench = workbench.bench(
        [{"match": "more", "reply": "two"}, {"reply": "one"}],
        budgets=Budgets(steps=4),
        grading=grading,
        settings=Settings(context_length=1024),
    )
    finished = workbench.solve(body.replace("\n    ", "\n"), bench)
    assert finished.rollout.reason == "step_limit"
    assert any(step.error for step in finished.trace.steps)
    assert again(workbench, finished, bench).result is Certified.EXACT


def test_trials_of_an_endpoint_that_does_not_repeat_itself_are_played_back_too(workbench: Workbench) -> None:
    bench = workbench.bench(settings=Settings(deterministic=False))
    finished = workbench.solve("for n in range(2): ep.complete([{'role': 'user', 'content': 'x'}])", bench, seed=2)
    assert again(workbench, finished, bench).result is Certified.EXACT


def test_a_crash_comes_back_as_a_crash(workbench: Workbench) -> None:
    assert played(workbench, "ep.run('true')\nraise RuntimeError('no')").result is Certified.EXACT
    bench = workbench.bench()
    finished = workbench.solve("ep.run('true')\nraise RuntimeError('no')", bench)
    (workbench.place / "tree" / "main.py").write_text(
        "from ht_sdk import *\ndef solve(ep):\n    ep.run('true')\nserve(solve)\n"
    )
    found = again(workbench, finished, bench)
    assert (found.result, found.what) == (Certified.FORKED, "the ending")
    assert "no" in (found.recorded or "") and found.issued == "ended without a submission"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("import time\nep.complete([{'role': 'user', 'content': 'it is ' + str(time.time())}])", "request: message 1"),
        ("import os\nep.complete([{'role': 'user', 'content': os.urandom(8).hex()}])", "request: message 1"),
        ("import uuid\nep.run('mkdir ' + str(uuid.uuid4()))", "run"),
        (
            "class Thing:\n    def __hash__(self):\n        return id(self) * 2654435761 >> 8\n"
            "things = [Thing() for _ in range(300)]\norder = [things.index(one) for one in set(things)]\n"
            "ep.complete([{'role': 'user', 'content': str(order)}])",
            "request: message 1",
        ),
        ("import os\nep.note(drawn=os.urandom(4).hex())", "note"),
        ("import os\nep.submit(os.urandom(4).hex())", "submit"),
        ("import time\nep.complete([{'role': 'user', 'content': 'x'}], [{'n': time.time_ns()}])", "request: tools"),
        (
            "import time\nep.complete([{'role': 'user', 'content': 'x'}], stop=[str(time.time_ns())])",
            "request: sampling or tool choice",
        ),
        ("import os\nfor n in range(1 + os.urandom(3)[0]): ep.run('echo ' + str(n))", "run"),
    ],
)
def test_a_harness_that_does_not_repeat_itself_is_caught_where_it_parts(
    workbench: Workbench, body: str, what: str
) -> None:
    for _ in range(5):  # what is drawn by chance may come out alike, several times in a row it does not
        found = played(workbench, "ep.run('true')\n" + body, workbench.bench(budgets=Budgets(actions=1000)))
        if found.result is not Certified.EXACT:
            break
    assert (found.result, found.what) == (Certified.FORKED, what)
    assert found.step is not None and found.step >= 1
    assert found.recorded != found.issued
    assert found.diff is not None and found.diff.startswith("--- recorded\n+++ issued\n")


def test_requests_that_overlap_may_arrive_in_any_order(workbench: Workbench) -> None:
    body = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(4) as pool:
        ask = lambda n: ep.complete([{"role": "user", "content": f"number {n}"}]).content
        said = list(pool.map(ask, [1, 2, 3, 4]))
    ep.run("echo " + " ".join(said))
    """
    bench = workbench.bench()
    finished = workbench.solve(body.replace("\n    ", "\n"), bench)
    main = workbench.place / "tree" / "main.py"
    assert again(workbench, finished, bench).result is Certified.EXACT
    main.write_text(main.read_text().replace("[1, 2, 3, 4]", "[4, 3, 2, 1]"))
    assert again(workbench, finished, bench).result is Certified.EXACT
    main.write_text(main.read_text().replace("[4, 3, 2, 1]", "[4, 3, 2, 5]"))
    found = again(workbench, finished, bench)
    assert (found.result, found.what) == (Certified.FORKED, "request: message 1")
    assert found.issued == "user: number 5"


def test_an_action_that_time_cut_short_comes_back_as_cut(workbench: Workbench) -> None:
    bench = workbench.bench([{"reply": "ok", "duration": 4.0}], budgets=Budgets(time=5.0))
    finished = workbench.solve(
        "ep.complete([{'role': 'user', 'content': 'x'}])\nep.run('sleep 3')\nep.run('true')", bench
    )
    assert finished.rollout.reason == "time_limit"
    assert again(workbench, finished, bench).result is Certified.EXACT
    check = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    assert check.result is Certified.NO_CHAIN, "what was cut gave no output to compare"


def test_the_first_message_that_differs_is_shown(workbench: Workbench) -> None:
    bench = workbench.bench()
    finished = workbench.solve(BUSY, bench)
    main = workbench.place / "tree" / "main.py"
    main.write_text(main.read_text().replace("out.stdout}]", "out.stdout + 'now'}]"))
    found = again(workbench, finished, bench)
    assert (found.result, found.step, found.played) == (Certified.FORKED, 3, 3)
    assert found.what == "request: message 4"
    assert (found.recorded, found.issued) == ("user: ok\n", "user: ok\nnow")
    assert "+now" in (found.diff or "")


def test_tokens_are_counted_by_whoever_is_given(workbench: Workbench) -> None:
    body = "ep.note(n=ep.count_tokens('one two'), m=ep.count_tokens([{'role': 'user', 'content': 'x'}]))"
    bench = workbench.bench()
    finished = workbench.solve(body, bench)
    assert again(workbench, finished, bench, count=bench.model.count_tokens).result is Certified.EXACT
    assert again(workbench, finished, bench, count=lambda messages: 1000).result is Certified.FORKED


def test_a_harness_that_cannot_be_started_any_more_is_neither_certified_nor_forked(workbench: Workbench) -> None:
    bench = workbench.bench()
    finished = workbench.solve("ep.run('true')", bench)
    (workbench.place / "tree" / "main.py").write_text("raise SystemExit(125)\n")
    with pytest.raises(SandboxFailure, match="it ends before it asks or does anything"):
        again(workbench, finished, bench)


def test_a_harness_that_never_began_has_nothing_to_repeat(workbench: Workbench) -> None:
    assert played(workbench, "pass").result is Certified.NO_CHAIN
