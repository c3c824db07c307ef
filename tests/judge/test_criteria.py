"""Criteria, tie-breaks and the bracket around infrastructure noise."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core import registry
from harnesstrain.core.digests import digest
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.verdict import Decision, Verdict
from harnesstrain.judge import Comparison, Criterion, StrictPareto, TotalSolves, compare
from harnesstrain.judge.rederive import rederive
from tests.judge.making import BASE, CAND, compared, rollout

BOTH: list[Criterion] = [StrictPareto(), TotalSolves()]
SOLVED, FAILED, INFRA = "solved", "failed_verification", "infra_llm"

outcomes = st.sampled_from([SOLVED, FAILED, "no_submit:step_limit", "policy_crash"])
maybe_unknown = st.sampled_from([SOLVED, SOLVED, FAILED, FAILED, INFRA, "infra_sandbox"])


@st.composite
def sides(draw: st.DrawFn, outcome: st.SearchStrategy[str] = outcomes) -> tuple[dict[str, str], dict[str, str]]:
    names = [f"t{index}" for index in range(draw(st.integers(min_value=1, max_value=7)))]
    return {name: draw(outcome) for name in names}, {name: draw(outcome) for name in names}


@st.composite
def costed(draw: st.DrawFn) -> tuple[Comparison, Comparison]:
    """A comparison whose cells have costs of their own, and the same one with one known cell made unknown."""
    small = st.integers(min_value=1, max_value=3)
    base, cand = [], []
    for index in range(draw(st.integers(min_value=1, max_value=5))):
        for side, to in ((BASE, base), (CAND, cand)):
            total = draw(st.integers(min_value=0, max_value=2))
            costs: dict[str, Any] = {"llm_calls": draw(small), "usage": Usage(prompt=draw(small))}
            costs.update(first_try_total=total, first_try_valid=draw(st.integers(min_value=0, max_value=total)))
            to.append(rollout(side, f"t{index}", draw(maybe_unknown), **costs))
    blurred = (list(base), list(cand))
    side = draw(st.sampled_from([0, 1]))
    place = draw(st.integers(min_value=0, max_value=len(base) - 1))
    lost = blurred[side][place]
    blurred[side][place] = rollout((BASE, CAND)[side], lost.task, INFRA)
    return compare(BASE, CAND, base, cand), compare(BASE, CAND, *blurred)


@pytest.mark.parametrize(
    ("base", "cand", "pareto", "total"),
    [
        ("sf", "ss", -1.0, -1.0),
        ("fff", "sss", -3.0, -3.0),
        ("sf", "ff", math.inf, 1.0),
        ("sff", "fss", math.inf, -1.0),
        ("ssf", "ffs", math.inf, 1.0),
        ("sf", "sf", 0.0, 0.0),
        ("sf", "fs", math.inf, 0.0),
        ("ff", "ff", 0.0, 0.0),
    ],
)
def test_losses(base: str, cand: str, pareto: float, total: float) -> None:
    words = {"s": SOLVED, "f": FAILED}
    comparison = compared(
        {f"t{i}": words[c] for i, c in enumerate(base)}, {f"t{i}": words[c] for i, c in enumerate(cand)}
    )
    for criterion, loss in zip(BOTH, (pareto, total), strict=True):
        verdict = criterion.judge(comparison)
        assert verdict.loss == loss
        assert verdict.decision is (Decision.SELECTED if loss < 0 else Decision.REJECTED)


def test_sentences_name_the_tasks() -> None:
    comparison = compared({"a": SOLVED, "b": FAILED, "c": FAILED}, {"a": FAILED, "b": SOLVED, "c": FAILED})
    assert StrictPareto().judge(comparison).sentence == "lost a, though it gained 1"
    assert TotalSolves().judge(comparison).sentence.startswith("no change: same number of solves (1 gained, 1 lost)")
    many = compared({f"t{i}": FAILED for i in range(8)}, {f"t{i}": SOLVED for i in range(8)})
    assert StrictPareto().judge(many).sentence == "gained t0, t1, t2, t3, t4 and 3 more, lost nothing"
    same = compared({"a": SOLVED}, {"a": SOLVED})
    assert StrictPareto().judge(same).sentence == "no change: same solves, no secondary metric differs"


def test_hollow_moves_win_nothing() -> None:
    verdict = StrictPareto().judge(compared({"a": FAILED}, {"a": "no_submit:time_limit"}))
    assert verdict.decision is Decision.REJECTED
    assert verdict.loss == 0
    assert [flip.cand_outcome for flip in verdict.hollow] == ["no_submit:time_limit"]


def tie(base: dict[str, Any], cand: dict[str, Any], outcome: str = SOLVED, **options: Any) -> Verdict:
    one, two = rollout(BASE, "a", outcome, **base), rollout(CAND, "a", outcome, **cand)
    verdicts = [criterion.judge(compare(BASE, CAND, [one], [two], **options)) for criterion in BOTH]
    assert len({verdict.loss for verdict in verdicts}) == 1
    return verdicts[0]


@pytest.mark.parametrize(
    ("base", "cand", "loss"),
    [
        ({"first_try_valid": 1, "first_try_total": 2}, {"first_try_valid": 2, "first_try_total": 2}, -0.1),
        ({"first_try_valid": 2, "first_try_total": 2}, {"first_try_valid": 1, "first_try_total": 2}, 0.1),
        ({"llm_calls": 5}, {"llm_calls": 4}, -0.01),
        ({"llm_calls": 4}, {"llm_calls": 5}, 0.01),
        ({"usage": Usage(prompt=9)}, {"usage": Usage(prompt=8)}, -0.001),
        ({"usage": Usage(prompt=8)}, {"usage": Usage(prompt=8, completion=1)}, 0.001),
        ({"llm_calls": 5, "usage": Usage(prompt=1)}, {"llm_calls": 4, "usage": Usage(prompt=9)}, -0.01),
        ({}, {"first_try_valid": 2, "first_try_total": 2}, 0.0),
        ({"first_try_valid": 0, "first_try_total": 2}, {}, 0.0),
        ({"recorded_time": 9.0}, {"recorded_time": 1.0}, 0.0),
        ({"actions": 9}, {"actions": 1}, 0.0),
    ],
)
def test_exact_ties_fall_to_secondary_metrics_in_order(base: dict[str, Any], cand: dict[str, Any], loss: float) -> None:
    verdict = tie(base, cand)
    assert verdict.loss == loss
    assert verdict.selected is (loss < 0)


def test_a_tie_break_says_what_decided() -> None:
    assert tie({"llm_calls": 5}, {"llm_calls": 4}).sentence == "same solves; steps 5 → 4"
    tokens = tie({"usage": Usage(prompt=12_000)}, {"usage": Usage(prompt=9_500)}).sentence
    assert tokens == "same solves; tokens per solve 12,000 → 9,500"


def test_giving_up_early_where_nobody_solves_is_no_improvement() -> None:
    assert tie({"llm_calls": 30}, {"llm_calls": 1, "usage": Usage(prompt=1)}, FAILED).loss == 0


def test_no_tie_break_where_the_endpoint_does_not_repeat_itself() -> None:
    verdict = tie({"llm_calls": 5}, {"llm_calls": 4}, deterministic=False)
    assert verdict.loss == 0
    assert "does not repeat itself" in verdict.sentence


@pytest.mark.parametrize(
    ("base", "cand", "pareto", "total"),
    [
        ({"a": INFRA, "g": FAILED}, {"a": SOLVED, "g": FAILED}, "unmeasurable", "unmeasurable"),
        ({"a": SOLVED, "g": FAILED}, {"a": INFRA, "g": SOLVED}, "unmeasurable", "unmeasurable"),
        ({"a": SOLVED, "b": FAILED, "c": FAILED}, {"a": INFRA, "b": SOLVED, "c": SOLVED}, "unmeasurable", "selected"),
        ({"a": FAILED, "g": FAILED}, {"a": INFRA, "g": SOLVED}, "selected", "selected"),
        ({"a": SOLVED, "l": SOLVED}, {"a": INFRA, "l": FAILED}, "rejected", "rejected"),
        ({"a": FAILED, "l": SOLVED}, {"a": INFRA, "l": FAILED}, "rejected", "unmeasurable"),
        ({"a": SOLVED, "s": SOLVED}, {"a": INFRA, "s": SOLVED}, "unmeasurable", "unmeasurable"),
        ({"a": INFRA, "l": SOLVED}, {"a": INFRA, "l": FAILED}, "rejected", "unmeasurable"),
        ({"a": SOLVED, "g": FAILED}, {"g": SOLVED}, "unmeasurable", "unmeasurable"),
        ({"a": INFRA}, {"a": INFRA}, "unmeasurable", "unmeasurable"),
    ],
)
def test_noise_on_either_side_is_taken_both_ways(
    base: dict[str, str], cand: dict[str, str], pareto: str, total: str
) -> None:
    comparison = compared(base, cand)
    for criterion, decision in zip(BOTH, (pareto, total), strict=True):
        verdict = criterion.judge(comparison)
        assert verdict.decision == decision, criterion.name
        if verdict.decision is Decision.UNMEASURABLE:
            assert verdict.loss == 0
            assert not verdict.selected


def test_nothing_compared_is_unmeasurable() -> None:
    verdict = StrictPareto().judge(compared({"a": "forked"}, {"a": SOLVED}))
    assert verdict.decision is Decision.UNMEASURABLE
    assert verdict.sentence == "no cell could be compared (1 excluded, 0 not measured)"


def test_unmeasured_cells_are_named_and_listed() -> None:
    verdict = StrictPareto().judge(compared({"a": SOLVED, "b": SOLVED, "g": FAILED}, {"a": INFRA, "g": SOLVED}))
    assert verdict.sentence == "cells that were not measured could change the verdict: a, b"
    assert [one.task for one in verdict.unmeasurable] == ["a"]
    assert [(one.task, one.reason) for one in verdict.excluded] == [("b", "missing")]


@given(sides())
def test_swapping_the_sides_swaps_gains_and_losses(pair: tuple[dict[str, str], dict[str, str]]) -> None:
    there, back = compared(*pair), compared(*reversed(pair))
    assert [flip.task for flip in there.gained] == [flip.task for flip in back.lost]
    assert [flip.task for flip in there.lost] == [flip.task for flip in back.gained]
    assert [flip.task for flip in there.hollow] == [flip.task for flip in back.hollow]
    assert TotalSolves().judge(there).loss == -TotalSolves().judge(back).loss
    assert len(there.gained) - len(there.lost) == there.cand.solved - there.base.solved


@given(sides(maybe_unknown))
def test_strict_pareto_never_selects_with_a_loss(pair: tuple[dict[str, str], dict[str, str]]) -> None:
    verdict = StrictPareto().judge(compared(*pair))
    if verdict.lost:
        assert verdict.decision is not Decision.SELECTED
    if verdict.selected:
        assert verdict.loss < 0
        assert len(verdict.gained) > 0 or verdict.loss > -1


@given(costed())
def test_making_a_cell_unknown_only_ever_adds_doubt(pair: tuple[Comparison, Comparison]) -> None:
    known, blurred = pair
    for criterion in BOTH:
        before, after = criterion.judge(known).decision, criterion.judge(blurred).decision
        assert after in (before, Decision.UNMEASURABLE)


@given(sides(maybe_unknown))
def test_a_verdict_is_a_function_of_its_rollouts(pair: tuple[dict[str, str], dict[str, str]]) -> None:
    for criterion in BOTH:
        verdict = criterion.judge(compared(*pair))
        assert criterion.judge(compared(*pair)) == verdict
        assert rederive(criterion, compared(*pair), verdict) == ()
        assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_ids_differ_by_criterion_and_by_input() -> None:
    one, other = compared({"a": SOLVED}, {"a": SOLVED}), compared({"a": SOLVED}, {"a": FAILED})
    ids = {criterion.judge(comparison).id for criterion in BOTH for comparison in (one, other)}
    assert len(ids) == 4


def test_a_forged_verdict_is_named_by_field() -> None:
    comparison = compared({"a": SOLVED}, {"a": FAILED})
    forged = StrictPareto().judge(comparison).model_copy(update={"decision": Decision.SELECTED, "loss": -1.0})
    found = rederive(StrictPareto(), comparison, forged)
    assert [(one.field, one.recorded, one.derived) for one in found] == [
        ("decision", "selected", "rejected"),
        ("loss", "-1.0", "inf"),
    ]


def test_seeds_tell_flips_of_one_task_apart() -> None:
    base = BASE.model_copy(update={"seeds": (1, 2), "id": digest("b2")})
    cand = CAND.model_copy(update={"seeds": (1, 2), "id": digest("c2")})
    old = [rollout(base, "a", FAILED, seed=1), rollout(base, "a", FAILED, seed=2)]
    new = [rollout(cand, "a", SOLVED, seed=1), rollout(cand, "a", SOLVED, seed=2)]
    assert StrictPareto().judge(compare(base, cand, old, new)).sentence == "gained a#1, a#2, lost nothing"


def test_criteria_are_registered_by_name() -> None:
    assert {"strict-pareto", "total-solves"} <= set(registry.names("criteria"))
    for criterion in BOTH:
        assert type(registry.load("criteria", criterion.name)()) is type(criterion)
