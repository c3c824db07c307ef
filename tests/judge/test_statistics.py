"""Exact statistics against scipy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.judge.statistics import detectable, mcnemar, needed, wilson

scipy_stats = pytest.importorskip("scipy.stats")

counts = st.integers(min_value=0, max_value=400)


@given(counts, counts)
def test_mcnemar_is_the_one_sided_binomial_test(gained: int, lost: int) -> None:
    expected = scipy_stats.binomtest(gained, gained + lost, 0.5, "greater").pvalue if gained + lost else 1.0
    assert mcnemar(gained, lost) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(counts, counts)
def test_more_gains_are_stronger_and_more_losses_weaker(gained: int, lost: int) -> None:
    assert mcnemar(gained + 1, lost) <= mcnemar(gained, lost) <= mcnemar(gained, lost + 1)
    assert 0 < mcnemar(gained, lost) <= 1


def test_mcnemar_of_nothing_and_of_nonsense() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(4, 1) == 0.1875
    with pytest.raises(ValueError, match="negative"):
        mcnemar(-1, 0)


@pytest.mark.parametrize(("lost", "gained"), [(0, 5), (1, 7), (2, 9), (3, 10)])
def test_gains_needed_beside_losses(lost: int, gained: int) -> None:
    assert needed(lost) == gained
    assert mcnemar(gained, lost) <= 0.05 < mcnemar(gained - 1, lost)


@pytest.mark.parametrize(("lost", "gained"), [(0, 10), (1, 13), (2, 15), (3, 17)])
def test_gains_needed_at_a_corrected_level(lost: int, gained: int) -> None:
    assert needed(lost, 0.05 / 30) == gained


def test_an_effect_is_detectable_only_with_room_for_it() -> None:
    assert [detectable(room) for room in (0, 4, 5, 6, 100)] == [0, 0, 5, 5, 5]


@given(st.integers(min_value=0, max_value=300), st.integers(min_value=0, max_value=300))
def test_wilson_is_scipys(solved: int, failed: int) -> None:
    cells = solved + failed
    got = wilson(solved, cells)
    if cells == 0:
        assert (got.low, got.high) == (0.0, 1.0)
        return
    expected = scipy_stats.binomtest(solved, cells).proportion_ci(confidence_level=0.95, method="wilson")
    assert got.low == pytest.approx(expected.low, abs=1e-12)
    assert got.high == pytest.approx(expected.high, abs=1e-12)
    assert got.low <= solved / cells <= got.high


def test_wilson_refuses_more_solves_than_cells() -> None:
    with pytest.raises(ValueError, match="between"):
        wilson(3, 2)
