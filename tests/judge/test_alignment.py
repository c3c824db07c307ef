"""Every cell lands in exactly one place, for the stated reason."""

from __future__ import annotations

from typing import Any

import pytest

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import StoreCorrupt, UsageError
from harnesstrain.judge import compare
from tests.judge.making import BASE, CAND, certificate, compared, rollout, run


def places(comparison: Any) -> dict[str, tuple[str, ...]]:
    return {
        "compared": tuple(pair.task for pair in comparison.pairs),
        "excluded": tuple(f"{one.task} {one.reason}" for one in comparison.excluded),
        "open": tuple(f"{cell.task} {cell.reason}" for cell in comparison.open),
    }


def test_flips_levers_and_hollow_moves() -> None:
    base = {"a": "solved", "b": "no_submit:step_limit", "c": "failed_verification", "d": "solved", "e": "policy_crash"}
    cand = {"a": "solved", "b": "solved", "c": "no_submit:time_limit", "d": "policy_crash", "e": "policy_crash"}
    got = compared(base, cand)
    assert [(f.task, f.gained, f.base_outcome, f.cand_outcome) for f in got.gained] == [
        ("b", True, "no_submit:step_limit", "solved")
    ]
    assert [(f.task, f.gained) for f in got.lost] == [("d", False)]
    assert [(f.task, f.base_outcome, f.cand_outcome) for f in got.hollow] == [
        ("c", "failed_verification", "no_submit:time_limit")
    ]
    assert (got.base.solved, got.cand.solved, got.base.cells, got.base.llm_calls) == (2, 2, 5, 20)
    assert got.base.tokens_per_solve == 2500
    assert got.p_value == 0.75
    assert got.detectable == 0


def test_unknown_cells_are_open_with_their_side() -> None:
    base = {"a": "solved", "b": "infra_llm", "c": "solved"}
    cand = {"a": "infra_sandbox", "b": "solved", "d": "solved"}
    got = compared(base, cand)
    assert places(got) == {
        "compared": (),
        "excluded": (),
        "open": ("a infra_sandbox", "b infra_llm", "c missing", "d missing"),
    }
    assert [one.detail for one in got.unmeasurable] == ["candidate: infra_sandbox", "baseline: infra_llm"]
    assert [one.detail for one in got.absent] == ["candidate", "baseline"]


def test_a_cell_missing_on_both_sides_is_seen_when_the_panel_is_known() -> None:
    got = compare(BASE, CAND, [], [], tasks=["x"])
    assert places(got)["open"] == ("x missing",)
    assert places(compare(BASE, CAND, [], []))["open"] == ()


def test_cells_an_early_decision_skipped_are_not_needed() -> None:
    early = CAND.model_copy(update={"early_stop_against": BASE.id})
    got = compare(BASE, early, [rollout(BASE, "a")], [])
    assert places(got)["open"] == ("a not_needed",)
    other = CAND.model_copy(update={"early_stop_against": "0" * 64})
    assert places(compare(BASE, other, [rollout(BASE, "a")], []))["open"] == ("a missing",)


def test_the_newest_attempt_is_the_measurement() -> None:
    first = rollout(BASE, "a", "infra_llm")
    second = rollout(BASE, "a", "solved", attempt=2)
    got = compare(BASE, CAND, [second, first], [rollout(CAND, "a")])
    assert places(got)["compared"] == ("a",)


def test_a_forked_baseline_chain_is_excluded_with_its_evidence() -> None:
    base, cand = rollout(BASE, "a"), rollout(CAND, "a", "failed_verification")
    proof = certificate(base, "forked", step=3, command="date")
    got = compare(BASE, CAND, [base], [cand], [proof])
    assert places(got)["excluded"] == ("a forked",)
    assert got.excluded[0].detail == "step 3: date"
    assert got.certificates == (proof.id,)
    drifted = rollout(BASE, "b", "forked", detail="step 2 drifted")
    assert places(compare(BASE, CAND, [drifted], [rollout(CAND, "b")]))["excluded"] == ("b forked",)


@pytest.mark.parametrize("change", [{"regime": digest("other")}, {"task_digest": digest("x")}, {"chain": digest("y")}])
def test_a_certificate_of_something_else_proves_nothing(change: dict[str, str]) -> None:
    base, cand = rollout(BASE, "a"), rollout(CAND, "a")
    got = compare(BASE, CAND, [base], [cand], [certificate(base, "forked", **change)])
    assert places(got)["compared"] == ("a",)
    required = compare(BASE, CAND, [base], [cand], [certificate(base, "exact", **change)], certified=True)
    assert places(required)["excluded"] == ("a not_certified",)


def test_certification_is_required_only_when_asked_and_only_where_something_ran() -> None:
    ran, idle = rollout(BASE, "a"), rollout(BASE, "b", chain_digest=None)
    cand = [rollout(CAND, "a"), rollout(CAND, "b")]
    assert places(compare(BASE, CAND, [ran, idle], cand))["compared"] == ("a", "b")
    assert places(compare(BASE, CAND, [ran, idle], cand, certified=True)) == {
        "compared": ("b",),
        "excluded": ("a not_certified",),
        "open": (),
    }
    full = compare(BASE, CAND, [ran, idle], cand, [certificate(ran)], certified=True)
    assert places(full)["compared"] == ("a", "b")


def test_a_candidates_fork_takes_its_gain_but_never_hides_its_loss() -> None:
    base = [rollout(BASE, "gain", "failed_verification"), rollout(BASE, "loss"), rollout(BASE, "same")]
    cand = [rollout(CAND, "gain"), rollout(CAND, "loss", "failed_verification"), rollout(CAND, "same")]
    proofs = [certificate(one, "forked", step=1, command="date") for one in cand]
    got = compare(BASE, CAND, base, cand, proofs)
    assert places(got) == {"compared": ("loss", "same"), "excluded": ("gain forked",), "open": ()}
    assert got.excluded[0].detail == "the gain did not repeat, step 1: date"


def test_a_candidate_whose_replay_drifted_is_unknown_not_excluded() -> None:
    got = compared({"a": "solved"}, {"a": "forked"})
    assert places(got)["open"] == ("a forked",)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"regime": digest("other")}, "regimes"),
        ({"panel": digest("other")}, "panels"),
        ({"split": "holdout"}, "splits"),
        ({"seeds": (1, 2)}, "seeds"),
    ],
)
def test_runs_that_are_not_comparable_are_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named) as caught:
        compare(BASE, run("d" * 40, **change), [], [])
    assert caught.value.extra["differs"] == named
    if named == "regimes":
        assert digest("other")[:8] in caught.value.message


def test_one_task_with_two_digests_is_corruption() -> None:
    other = rollout(CAND, "a").model_copy(update={"task_digest": digest("changed")})
    with pytest.raises(StoreCorrupt, match="two digests"):
        compare(BASE, CAND, [rollout(BASE, "a")], [other])


def test_unchanged_cells_are_counted_whatever_the_cache_did() -> None:
    same = {"requests_digest": digest("r"), "chain_digest": digest("c")}
    base = [rollout(BASE, "a", llm_cached=0, **same), rollout(BASE, "b")]
    cold = [rollout(CAND, "a", llm_cached=0, **same), rollout(CAND, "b")]
    warm = [rollout(CAND, "a", llm_cached=4, **same), rollout(CAND, "b")]
    assert compare(BASE, CAND, base, cold).proven_unchanged == 1
    assert compare(BASE, CAND, base, warm).proven_unchanged == 1
    assert compare(BASE, CAND, base, warm, deterministic=False).proven_unchanged == 0


def test_inputs_ignore_order_clocks_and_caches_but_nothing_that_is_judged() -> None:
    base = [rollout(BASE, name) for name in "abc"]
    cand = [rollout(CAND, name) for name in "abc"]
    inputs = compare(BASE, CAND, base, cand).inputs
    assert compare(BASE, CAND, base[::-1], cand[::-1]).inputs == inputs
    assert compare(BASE, CAND, base, cand, tasks=["c", "b", "a"]).inputs == inputs
    for harmless in ({"recorded_time": 9.0}, {"llm_cached": 4}):
        assert compare(BASE, CAND, base, [rollout(CAND, "a", **harmless), *cand[1:]]).inputs == inputs
    for change in ({"llm_calls": 5}, {"first_try_total": 1}, {"reward": 0.5}, {"actions": 9}):
        assert compare(BASE, CAND, base, [rollout(CAND, "a", **change), *cand[1:]]).inputs != inputs
    assert compare(BASE, CAND, base, cand, [certificate(base[0])]).inputs != inputs
    assert compare(BASE, CAND, base, cand, deterministic=False).inputs != inputs
