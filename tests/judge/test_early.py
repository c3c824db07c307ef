"""Early decision never changes what the full run would have said."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.core.records.verdict import Decision, Verdict
from harnesstrain.judge import Comparison, Rule, StrictPareto, TotalSolves, compare
from harnesstrain.judge.attributed import AttributedPareto
from harnesstrain.judge.attribution import ATTRIBUTED, COLLATERAL, Attribution
from harnesstrain.judge.bracket import bracket
from harnesstrain.judge.early import Cell, order, undecided
from harnesstrain.judge.transitions import modes, transitions
from tests.judge.making import BASE, CAND, certificate, compared, rollout, run

SOLVED, FAILED = "solved", "failed_verification"


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


OUTCOMES = (SOLVED, FAILED, "no_submit:step_limit", "infra_llm")
RULES: tuple[StrictPareto | TotalSolves | AttributedPareto, ...] = (StrictPareto(), TotalSolves(), AttributedPareto())
cells_of = st.lists(
    st.tuples(st.sampled_from(OUTCOMES), st.sampled_from(OUTCOMES), st.integers(1, 3), st.integers(1, 3)),
    min_size=1,
    max_size=7,
)


def flips(verdict: Verdict) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    return {(f.task, f.seed) for f in verdict.gained}, {(f.task, f.seed) for f in verdict.lost}


@settings(max_examples=250)
@given(cells_of, st.randoms(use_true_random=False), st.sampled_from(RULES), st.booleans(), st.integers(1, 2))
def test_stopping_early_gives_the_full_runs_verdict(
    cells: list[tuple[str, str, int, int]], dice: Random, rule: Rule, repeats: bool, seeds: int
) -> None:
    """Whatever the outcomes, infrastructure failures included, the criterion, the order, the seeds, and the causes."""
    numbers = tuple(range(1, seeds + 1))
    one, two = run("b" * 40, seeds=numbers), run("c" * 40, seeds=numbers)
    names = [(f"t{i // seeds}", i % seeds + 1) for i in range(len(cells))]
    base = [rollout(one, t, b, seed=s, llm_calls=n) for (t, s), (b, _, n, _) in zip(names, cells, strict=True)]
    cand = {(t, s): rollout(two, t, c, seed=s, llm_calls=n) for (t, s), (_, c, _, n) in zip(names, cells, strict=True)}
    causes = tuple(
        Attribution(task=t, seed=s, verdict=dice.choice((ATTRIBUTED, COLLATERAL)))
        for t, s in names
        if dice.random() < 0.8
    )
    tasks = list(dict.fromkeys(t for t, _ in names))

    def verdict(done: list[Rollout], against: str | None) -> Verdict:
        return rule.judge(comparison(done, against))  # type: ignore[attr-defined, no-any-return]

    def comparison(done: list[Rollout], against: str | None) -> Comparison:
        mine = two.model_copy(update={"early_stop_against": against})
        aligned = compare(one, mine, base, done, tasks=tasks, deterministic=repeats)
        known = tuple(a for a in causes if any((p.task, p.seed) == (a.task, a.seed) for p in aligned.flipped))
        return aligned.model_copy(update={"attributions": known})

    wanted = list(order(base))
    if dice.random() < 0.5:
        dice.shuffle(wanted)
    done: list[Rollout] = []
    for cell in wanted:
        if not undecided(rule, comparison(done, None)):
            break
        done.append(cand[cell.task, cell.seed])
    early, full = verdict(done, one.id), verdict(list(cand.values()), None)
    assert early.decision is full.decision
    assert flips(early)[0] <= flips(full)[0]
    assert flips(early)[1] <= flips(full)[1]
    assert {found.reason for found in early.excluded} <= {"not_needed", "missing"}
    left_out = {(cell.task, cell.seed) for cell in wanted[len(done) :]}
    if left_out:
        assert full.decision is not Decision.UNMEASURABLE
        assert (early.loss < 0) is (full.loss < 0)
        assert early.loss != 0
    if early.selected:
        assert all(r.outcome is Outcome.FAILED_VERIFICATION or r.reason for r in base if (r.task, r.seed) in left_out)
    for count in range(len(done), len(cand) + 1):  # whatever is measured beyond it leaves it decided
        more = [*done, *(cand[cell.task, cell.seed] for cell in wanted[len(done) : count])]
        assert not left_out or not undecided(rule, comparison(more, one.id))


def test_a_selection_waits_for_everything_it_could_lose() -> None:
    base = {"a": SOLVED, "b": FAILED, "c": FAILED, "d": FAILED}
    gains = {"b": SOLVED, "c": SOLVED, "d": SOLVED}
    assert bracket(TotalSolves(), compared(base, gains)).settled
    assert undecided(TotalSolves(), compared(base, gains))
    assert undecided(TotalSolves(), compared(base, {**gains, "a": "infra_llm"}))
    assert not undecided(TotalSolves(), compared({**base, "e": FAILED}, {**gains, "a": FAILED}))


def test_a_tie_is_never_stated_early() -> None:
    base, cand = {"a": FAILED, "b": SOLVED}, {"a": FAILED}
    for repeats in (True, False):
        assert undecided(StrictPareto(), compared(base, cand, deterministic=repeats))


def test_what_forked_decides_nothing() -> None:
    base = [rollout(BASE, "a"), rollout(BASE, "b", FAILED)]
    proof = certificate(base[1], "forked", step=1, command="date")
    comparison = compare(BASE, CAND, base, [rollout(CAND, "a", FAILED)], [proof])
    assert not undecided(StrictPareto(), comparison)
    gain = rollout(CAND, "b")
    lone = [rollout(BASE, "b", FAILED), rollout(BASE, "c", FAILED)]
    assert not undecided(StrictPareto(), compare(BASE, CAND, lone, [gain]))
    forked = [certificate(gain, "forked", step=1, command="date")]
    assert undecided(StrictPareto(), compare(BASE, CAND, lone, [gain], forked))  # the gain that decided is none


def test_order_is_solved_first_and_longest_first() -> None:
    base = [
        rollout(BASE, "short", SOLVED, llm_calls=1, recorded_time=99.0),
        rollout(BASE, "failed", FAILED, llm_calls=9),
        rollout(BASE, "long", SOLVED, llm_calls=5),
        rollout(BASE, "forked", SOLVED, llm_calls=7),
    ]
    excluded = [Cell(task="forked", seed=1)]
    assert [cell.task for cell in order(base, excluded=excluded)] == ["long", "short", "failed", "forked"]
    assert [cell.task for cell in order(base, solved_first=False)] == ["failed", "forked", "long", "short"]
    assert order(reversed(base)) == order(base)


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
