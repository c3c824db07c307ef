"""What a traced harness tells is kept beside its steps, and changes nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harnesstrain.core.records.harness import Changes, Watch
from harnesstrain.core.records.rollout import Outcome, StepKind
from harnesstrain.rollout.episode import attempt
from tests.rollout.making import Workbench

pytestmark = pytest.mark.local

PROGRAM = """\
from ht_sdk import *
def solve(ep):
    reply = ep.complete([{"role": "user", "content": "go"}])
    changed = True
    ep.run("touch done")
    if reply.content == "stop":
        left = True
        return
    ep.submit()
serve(solve)
"""
CHANGES = Changes(
    base="b" * 40,
    files={
        "main.py": (Watch(first=4, last=4, when="run"), Watch(first=7, last=7, when="run")),
        "unread.md": (),
    },
)


def test_a_trace_changes_neither_requests_nor_actions(workbench: Workbench) -> None:
    cell = workbench.cell(PROGRAM)
    plain = attempt(cell, workbench.bench())
    traced = attempt(replace(cell, changes=CHANGES), workbench.bench())
    assert plain.rollout.outcome is traced.rollout.outcome is Outcome.SOLVED
    assert (plain.rollout.traced, traced.rollout.traced) == (None, "b" * 40)
    assert plain.rollout.measurement == traced.rollout.measurement
    assert [step.ran for step in plain.trace.steps] == [(), (), ()]
    assert [(step.kind, step.ran) for step in traced.trace.steps] == [
        (StepKind.LLM, ()),
        (StepKind.RUN, ("main.py:4",)),
        (StepKind.SUBMIT, ()),
    ]
    bare = [step.model_copy(update={"ran": (), "duration": 0.0}) for step in traced.trace.steps]
    assert bare == [step.model_copy(update={"duration": 0.0}) for step in plain.trace.steps]


def test_what_ran_before_a_harness_gave_up_is_kept(workbench: Workbench) -> None:
    cell = replace(workbench.cell(PROGRAM), changes=CHANGES)
    gave_up = attempt(cell, workbench.bench([{"reply": "stop"}]))
    assert gave_up.rollout.outcome is Outcome.NO_SUBMIT
    assert gave_up.trace.steps[-1].ran_after == ("main.py:7",)


def test_only_what_was_asked_for_is_kept(workbench: Workbench) -> None:
    lies = PROGRAM.replace("    changed = True\n", "    import ht_sdk; ht_sdk._WITNESS._news.append('no.py:1')\n")
    told = attempt(replace(workbench.cell(lies), changes=CHANGES), workbench.bench())
    assert [step.ran for step in told.trace.steps] == [(), ("main.py:4",), ()]


def test_a_harness_that_cannot_tell_is_not_traced(workbench: Workbench) -> None:
    body = PROGRAM.replace("from ht_sdk import *", "import ht_sdk\nfrom ht_sdk import *\n_call = ht_sdk.Episode._call")
    body = body.replace("def solve", "ht_sdk.Episode._call = lambda ep, method, **p: _call(ep, method, **{**p, **("
                        "{'capabilities': []} if 'capabilities' in p else {})})\ndef solve")  # fmt: skip
    played = attempt(replace(workbench.cell(body), changes=CHANGES), workbench.bench())
    assert played.rollout.outcome is Outcome.SOLVED
    assert played.rollout.traced is None
