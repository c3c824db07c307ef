"""Early decision never changes what the full run would have said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.judge import Rule, StrictPareto, TotalSolves, compare
from harnesstrain.judge.early import order, undecided
from harnesstrain.judge.transitions import modes, transitions
from tests.judge.making import BASE, CAND, compared, rollout

SOLVED, FAILED = "solved", "failed_verification"
EARLY = CAND.model_copy(update={"early_stop_against": BASE.id})


def test_a_loss_decides_strict_pareto_at_once_and_total_solves_not() -> None:
    comparison = compared({"a": SOLVED, "b": FAILED, "c": FAILED}, {"a": FAILED})
    assert not undecided(StrictPareto(), comparison)
    assert undecided(TotalSolves(), comparison)


def test_a_gain_decides_once_nothing_can_be_lost() -> None:
    assert undecided(StrictPareto(), compared({"a": SOLVED, "b": FAILED, "c": FAILED}, {"b": SOLVED}))
    assert not undecided(StrictPareto(), compared({"a": SOLVED, "b": FAILED, "c": FAILED}, {"a": SOLVED, "b": SOLVED}))


def test_nothing_measured_is_undecided_and_everything_measured_is_not() -> None:
    assert undecided(StrictPareto(), compared({"a": SOLVED}, {}))
    assert undecided(StrictPareto(), compared({"a": FAILED, "b": SOLVED}, {"b": SOLVED}))
    assert not undecided(StrictPareto(), compared({"a": SOLVED}, {"a": SOLVED}))


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=6))
def test_stopping_early_gives_the_full_runs_decision(cells: list[tuple[bool, bool, int, int]]) -> None:
    words = {True: SOLVED, False: FAILED}
    base = [rollout(BASE, f"t{i}", words[b], llm_calls=n) for i, (b, _, n, _) in enumerate(cells)]
    cand = {f"t{i}": rollout(CAND, f"t{i}", words[c], llm_calls=n) for i, (_, c, _, n) in enumerate(cells)}
    rules: list[StrictPareto | TotalSolves] = [StrictPareto(), TotalSolves()]
    for rule in rules:
        full = rule.judge(compare(BASE, CAND, base, cand.values()))
        done = []
        for cell in order(base):
            done.append(cand[cell.task])
            if not undecided(rule, compare(BASE, EARLY, base, done)):
                break
        early = rule.judge(compare(BASE, EARLY, base, done))
        assert early.decision is full.decision
        assert {one.reason for one in early.excluded} <= {"not_needed"}


def test_order_is_solved_first_and_longest_first() -> None:
    base = [
        rollout(BASE, "short", SOLVED, recorded_time=1.0),
        rollout(BASE, "failed", FAILED, recorded_time=9.0),
        rollout(BASE, "long", SOLVED, recorded_time=5.0),
    ]
    assert [cell.task for cell in order(base)] == ["long", "short", "failed"]
    assert [cell.task for cell in order(base, solved_first=False)] == ["failed", "long", "short"]


def test_a_rule_is_all_that_early_decision_needs() -> None:
    class AnyGain:
        name = "any-gain"

        def loss(self, tally):  # type: ignore[no-untyped-def]
            from harnesstrain.judge import Loss

            return Loss(value=-float(len(tally.gained)), sentence="")

    rule: Rule = AnyGain()
    assert undecided(rule, compared({"a": FAILED, "b": FAILED}, {"a": FAILED}))
    assert not undecided(rule, compared({"a": FAILED, "b": FAILED}, {"a": SOLVED}))


def test_transitions_place_every_compared_cell_once() -> None:
    comparison = compared(
        {"a": SOLVED, "b": "no_submit:step_limit", "c": "no_submit:step_limit", "d": "infra_llm", "e": SOLVED},
        {"a": SOLVED, "b": SOLVED, "c": FAILED, "d": SOLVED, "e": SOLVED},
    )
    assert [(one.base, one.cand, one.cells) for one in transitions(comparison)] == [
        ("solved", "solved", ("a", "e")),
        ("no_submit:step_limit", "solved", ("b",)),
        ("no_submit:step_limit", "failed_verification", ("c",)),
    ]
    assert modes([pair.base for pair in comparison.pairs]) == {"solved": 2, "no_submit:step_limit": 2}
