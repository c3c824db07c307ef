"""Where two rollouts part, and whether the change is to thank."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.digests import digest
from harnesstrain.core.records.rollout import Rollout, Step, StepKind
from harnesstrain.judge.attribution import attribute
from harnesstrain.judge.divergence import OVERLAP, Divergence, first_divergence
from tests.judge.making import BASE, CAND, rollout

SOLVED, FAILED = rollout(CAND, "a"), rollout(BASE, "a", "failed_verification")


def steps(text: str, **ran: tuple[str, ...]) -> list[Step]:
    """One step a word: `l:request=reply`, `r:command=output` (`!`: cut), `n` (a note), `s` (submit).

    `ran`: what ran before the step of that place, e.g. `at2=("a.py:1",)`; `after`: after the last one.
    """
    found = []
    words = text.split()
    for index, word in enumerate(words):
        kind, _, said = word.partition(":")
        asked, _, answer = said.partition("=")
        fields: dict[str, Any] = {"ran": ran.get(f"at{index}", ())}
        if index == len(words) - 1:
            fields["ran_after"] = ran.get("after", ())
        if kind == "l":
            names = tuple(digest(name) for name in asked.split(","))
            found.append(Step(index=index, kind="llm", request_digest=asked, messages=names, content=answer, **fields))
        elif kind == "r":
            output = None if answer == "!" else digest(answer)
            found.append(Step(index=index, kind="run", action=asked, scrubbed_digest=output, **fields))
        else:
            found.append(Step(index=index, kind={"n": StepKind.NOTE, "s": StepKind.SUBMIT}[kind], **fields))
    return found


def parted(one: str, other: str, base: Rollout = FAILED, cand: Rollout = SOLVED) -> Divergence | None:
    return first_divergence(base, steps(one), cand, steps(other))


@pytest.mark.parametrize(
    ("one", "other", "kind", "step", "shared"),
    [
        ("l:a=1 r:x=1 s", "l:b=1 r:x=1 s", "request", 0, 0),
        ("l:a=1 r:x=1 s", "l:a=1 r:y=1 s", "action", 1, 1),
        ("l:a=1 r:x=1 s", "l:a=1 n n r:y=1 s", "action", 3, 1),
        ("l:a=1 n r:x=1 s", "l:a=1 r:x=1 l:b=1 s", "outcome", 2, 2),
        ("l:a=1 r:x=1 s", "l:a=1 r:x=1", "outcome", 2, 2),
        ("l:a=1", "l:a=1 r:x=1 s", "outcome", 1, 1),
        ("l:a=1 s", "l:a=2 s", "reply", 0, 0),
        ("r:x=1 r:y=1 s", "r:x=1 r:y=2 s", "observation", 1, 1),
        ("r:x=1 r:y=1 s", "r:x=1 r:y=!", "outcome", 1, 1),
        ("l:a=1 r:x=1 s", "l:a=1 r:x=1 s", "outcome", 3, 3),
        ("l:a=1 n r:x=1 s", "n l:a=1", "outcome", 2, 1),
        ("l:a=1 s", "n l:a=1 n s", "outcome", 4, 2),
        ("", "", "outcome", 0, 0),
        ("l:a=1 l:b=1 l:c=1 s", "l:b=1 l:a=1 l:d=1 s", "request", 2, 2),
        ("l:a=1 l:b=1 l:c=1 s", "l:a=1 l:c=1 s", "request", 1, 1),
        ("l:a=1 l:b=1 r:x=1 s", "l:a=1 r:x=1 s", "action", 1, 1),
        ("l:a=1 l:b=1 s", "l:b=1 l:a=2 s", "reply", 1, 1),
        ("l:a=1 l:b=1 r:x=1 s", "l:x=1 l:b=1 l:a=1 r:x=1 s", "request", 0, 0),
    ],
)
def test_the_first_difference_is_found(one: str, other: str, kind: str, step: int, shared: int) -> None:
    found = parted(one, other)
    assert found is not None
    assert (found.kind, found.step, found.shared) == (kind, step, shared)


def test_the_same_and_the_same_end_is_no_difference() -> None:
    assert parted("l:a=1 r:x=1 n s", "n l:a=1 r:x=1 s", SOLVED, SOLVED) is None
    assert parted("l:a=1 l:b=2 r:x=1 s", "l:b=2 l:a=1 r:x=1 s", SOLVED, SOLVED) is None


@given(st.permutations([f"l:{name}=1" for name in "abcdefgh"]), st.data())
def test_the_order_of_overlapping_calls_is_no_difference(order: list[str], data: st.DataObject) -> None:
    assert len(order) == OVERLAP
    one, other = "r:x=1 " + " ".join(sorted(order)), "r:x=1 " + " ".join(order)
    assert parted(f"{one} r:y=1 s", f"{other} r:y=1 s", SOLVED, SOLVED) is None
    place = data.draw(st.integers(0, OVERLAP - 1))
    changed = " ".join("l:new=1" if index == place else word for index, word in enumerate(order))
    found = parted(f"{one} s", f"r:x=1 {changed} s")
    assert found is not None
    assert (found.kind, found.step) == ("request", place + 1)


def test_the_first_message_that_differs_is_named() -> None:
    found = parted("l:s,t,u=1 s", "l:s,x,u=1 s")
    assert found is not None
    assert (found.kind, found.message) == ("request", 1)
    longer = parted("l:s,t=1 s", "l:s,t,u=1 s")
    assert longer is not None
    assert longer.message == 2


TRACED = SOLVED.model_copy(update={"traced": BASE.commit})


def why(one: str, other: str, cand: Rollout = TRACED, **ran: tuple[str, ...]) -> tuple[str | None, str]:
    found = attribute(BASE.commit, FAILED, steps(one), cand, steps(other, **ran))
    return found.verdict, found.evidence


def test_changed_code_that_ran_before_the_step_explains_a_flip() -> None:
    one, other = "l:a=1 r:x=1 s", "l:a=1 n r:y=1 l:c=1 s"
    evidence = "a.py:3 ran before step 2 (action)"
    assert why(one, other, at2=("a.py:3",)) == ("attributed", evidence)
    assert why(one, other, at0=("a.py:3",)) == ("attributed", evidence)
    assert why(one, other, at3=("a.py:3",)) == ("collateral", "no changed line ran before step 2 (action)")
    assert why(one, other, at0=("a.py:3", "b.md"), at1=("c.md",))[1].startswith("a.py:3 and 2 more ran before")


def test_what_ran_after_the_last_request_counts_where_the_candidate_stopped() -> None:
    assert why("l:a=1 r:x=1 s", "l:a=1", after=("a.py:9",)) == ("attributed", "a.py:9 ran before step 1 (outcome)")


def test_what_the_harness_did_not_do_is_not_its_changes_doing() -> None:
    for one, other in (("l:a=1 s", "l:a=2 s"), ("r:x=1 s", "r:x=2 s"), ("r:x=1 s", "r:x=!")):
        assert why(one, other, at0=("a.py:3",))[0] == "collateral"
    assert why("r:x=1 s", "r:x=1 s", at0=("a.py:3",)) == ("collateral", "same requests and actions, another grade")


def test_nothing_is_said_of_what_was_not_traced() -> None:
    assert why("l:a=1 s", "l:b=1 s", SOLVED) == (None, "")
    verdict, evidence = why("l:a=1 s", "l:b=1 s", SOLVED.model_copy(update={"traced": "d" * 40}), at0=("a.py:1",))
    assert (verdict, evidence) == (None, "traced against dddddddd, not the compared baseline")


def test_a_candidate_that_never_asked_anything_broke_by_itself() -> None:
    crashed = rollout(CAND, "a", "policy_crash")
    found = attribute(BASE.commit, rollout(BASE, "a"), steps("l:a=1 s"), crashed, [])
    assert (found.verdict, found.evidence) == ("attributed", "the candidate crashed before its first request")
