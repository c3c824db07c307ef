"""What limits a task, against definitions written down a second time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.judge.limits import Label, Limit, Tried, compared, limits
from harnesstrain.judge.statistics import fisher

Outcomes = tuple[bool | None, ...]
Table = dict[tuple[str, str], Outcomes]
"""Outcomes of one task, by version and model."""
HARNESSES, MODELS = ("h1", "h2", "h3"), ("m1", "m2", "m3")
TASK = "t"


def tried(table: Mapping[tuple[str, str], Outcomes], *, repeats: bool = True) -> list[Tried]:
    return [Tried(harness=h, model=m, repeats=repeats, outcomes={TASK: found}) for (h, m), found in table.items()]


def labels(table: Mapping[tuple[str, str], Outcomes], *, repeats: bool = True) -> dict[str, Limit]:
    return {one.model: one for one in limits(tried(table, repeats=repeats), [TASK])}


def grids(*, unknown: bool, holes: bool = False, seeds: int = 2) -> st.SearchStrategy[Table]:
    outcome = st.sampled_from([True, False, None] if unknown else [True, False])
    cell = st.lists(outcome, min_size=seeds, max_size=seeds).map(tuple)
    places = list(itertools.product(HARNESSES, MODELS))

    def grid(found: Sequence[Outcomes], kept: Sequence[bool]) -> Table:
        return {place: one for place, one, keep in zip(places, found, kept, strict=True) if keep}

    kept = st.lists(st.booleans(), min_size=9, max_size=9) if holes else st.just([True] * 9)
    return st.builds(grid, st.lists(cell, min_size=9, max_size=9), kept)


def oracle(table: Table, model: str) -> tuple[Label, set[str]]:
    """The definitions, quantifier by quantifier, for models and harnesses that repeat themselves."""
    on = {h: {m for g, m in table if g == h} for h in HARNESSES}
    rows = [h for h in HARNESSES if len(on[h]) >= 2]
    here = [h for h in rows if model in on[h]]

    def ever(h: str, m: str) -> bool:
        return any(one is True for one in table.get((h, m), ()))

    def never(h: str, m: str) -> bool:
        return all(one is False for one in table[h, m])

    def always(h: str, m: str) -> bool:
        return all(one is True for one in table[h, m])

    def sure(h: str, m: str) -> bool:
        return all(one is not None for one in table[h, m])

    if len(here) < 2:
        return Label.OPEN, set()
    somebody = any(ever(h, model) for h in HARNESSES)
    losers = {h for h in here if never(h, model)}
    if somebody and losers:
        return Label.HARNESS, losers
    if somebody and all(always(h, model) for h in here):
        return Label.SOLVED, set()
    if not all(sure(h, model) for h in here):
        return Label.OPEN, set()
    if somebody:
        return Label.MIXED, set()
    if any(ever(h, m) for h in here for m in MODELS if m != model):
        return Label.MODEL, set()
    if any(ever(h, m) for h in HARNESSES for m in MODELS):
        return Label.OPEN, set()
    if all(sure(h, m) for h in rows for m in on[h]):
        return Label.UNSOLVED, set()
    return Label.OPEN, set()


@given(grids(unknown=True, holes=True))
def test_labels_are_as_they_are_defined(table: Table) -> None:
    found = labels(table)
    rows = compared(tried(table))
    assert (len(rows) < 2) == (not found)
    for model, limit in found.items():
        label, limited = oracle(table, model)
        assert (limit.label, set(limit.limited)) == (label, limited), model
        assert limit.p_value is None
        if limit.label is Label.HARNESS:
            assert limit.witness in limit.solved_by
            assert True in table[limit.witness or "", model]
        if limit.label is Label.MODEL:
            assert not limit.solved_by
            assert limit.elsewhere
            assert all(True in table[limit.witness or "", other] for other in limit.elsewhere)


@given(grids(unknown=True, holes=True), st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_runs_means_nothing(table: Table, random: object, repeats: bool) -> None:
    shuffled = list(table.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = labels(table, repeats=repeats), labels(dict(shuffled), repeats=repeats)
    assert {m: (one.label, set(one.limited)) for m, one in first.items()} == {
        m: (one.label, set(one.limited)) for m, one in second.items()
    }


def completions(table: Table, most: int = 6) -> Iterator[Table]:
    """Every way in which unknown outcomes may turn out; none where there are too many."""
    unknown = [(place, seed) for place, found in table.items() for seed, one in enumerate(found) if one is None]
    if len(unknown) > most:
        return
    for turned in itertools.product((True, False), repeat=len(unknown)):
        full = {place: list(found) for place, found in table.items()}
        for (place, seed), one in zip(unknown, turned, strict=True):
            full[place][seed] = one
        yield {place: tuple(found) for place, found in full.items()}


@given(grids(unknown=True, seeds=1))
def test_no_unknown_cell_can_take_a_label_back(table: Table) -> None:
    before = labels(table)
    for full in completions(table):
        after = labels(full)
        for model, limit in before.items():
            if limit.label is not Label.OPEN:
                assert after[model].label is limit.label
                assert set(limit.limited) <= set(after[model].limited)


@given(grids(unknown=False, seeds=3), st.booleans())
def test_a_model_that_solved_a_task_once_does_not_limit_it(table: Table, repeats: bool) -> None:
    for model, limit in labels(table, repeats=repeats).items():
        if any(True in found for (_, m), found in table.items() if m == model):
            assert limit.label not in (Label.MODEL, Label.UNSOLVED)


@given(grids(unknown=False, seeds=3))
def test_what_does_not_repeat_itself_is_labelled_only_beyond_chance(table: Table) -> None:
    """Three versions: two others were looked at, so that three seeds of each (p = 0.05) are not enough."""
    repeating = labels(table)
    for model, limit in labels(table, repeats=False).items():
        assert limit.label not in (Label.HARNESS, Label.MODEL)
        if limit.label is not repeating[model].label:
            assert repeating[model].label in (Label.HARNESS, Label.MODEL)
            assert limit.label is Label.MIXED


TWO = ("h1", "h2")


def square(a: Outcomes, b: Outcomes, c: Outcomes, d: Outcomes) -> Table:
    """h1 and h2 on m1, then on m2."""
    return {("h1", "m1"): a, ("h2", "m1"): b, ("h1", "m2"): c, ("h2", "m2"): d}


@pytest.mark.parametrize(
    ("seeds", "label"), [(1, Label.MIXED), (2, Label.MIXED), (3, Label.HARNESS), (4, Label.HARNESS)]
)
def test_two_versions_on_a_model_that_varies_take_three_seeds(seeds: int, label: Label) -> None:
    won, lost = (True,) * seeds, (False,) * seeds
    found = labels(square(lost, won, won, won), repeats=False)["m1"]
    assert found.label is label
    if label is Label.HARNESS:
        assert found.p_value == pytest.approx(1 / math.comb(2 * seeds, seeds))
        assert found.limited == ("h1",)


def test_two_models_that_vary_take_four_seeds_because_two_versions_are_looked_at() -> None:
    for seeds, label in ((3, Label.MIXED), (4, Label.MODEL)):
        won, lost = (True,) * seeds, (False,) * seeds
        found = labels(square(lost, lost, won, lost), repeats=False)["m1"]
        assert found.label is label
    assert found.p_value == pytest.approx(2 / math.comb(8, 4))
    assert (found.witness, found.elsewhere) == ("h1", ("m2",))


def test_one_harness_that_does_not_repeat_itself_taints_its_own_contrasts_only() -> None:
    runs = tried(square((False,), (True,), (False,), (True,)))
    tainted = [one.model_copy(update={"repeats": one.model == "m1"}) for one in runs]
    found = {one.model: one.label for one in limits(tainted, [TASK])}
    assert found == {"m1": Label.HARNESS, "m2": Label.MIXED}


def test_a_version_measured_on_one_model_is_evidence_and_no_row() -> None:
    table = square((False,), (False,), (True,), (False,))
    assert labels(table)["m1"].label is Label.MODEL
    found = labels(table | {("h3", "m1"): (True,)})["m1"]
    assert (found.label, found.limited, found.solved_by) == (Label.HARNESS, ("h1", "h2"), ("h3",))
    assert labels(table | {("h3", "m1"): (None,)})["m1"].label is Label.MODEL
    assert compared(tried(table | {("h3", "m1"): (True,)})) == TWO


def test_labels_take_two_versions_on_two_models() -> None:
    assert limits(tried({("h1", "m1"): (True,), ("h1", "m2"): (False,)}), [TASK]) == ()
    assert limits(tried({("h1", "m1"): (True,), ("h2", "m1"): (False,)}), [TASK]) == ()
    assert limits([], [TASK]) == ()


def test_a_task_that_a_run_does_not_have_is_not_known() -> None:
    found = limits(tried(square((False,), (False,), (False,), (False,))), ["elsewhere"])
    assert {one.label for one in found} == {Label.OPEN}


counts = st.integers(min_value=0, max_value=30)


@given(counts, counts, counts, counts)
def test_fisher_is_scipys(solved: int, more: int, other: int, other_more: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    table = [[solved, more], [other, other_more]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert fisher(solved, solved + more, other, other + other_more) == pytest.approx(expected, rel=1e-9)


def test_fisher_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="between 0 and cells"):
        fisher(3, 2, 0, 2)
