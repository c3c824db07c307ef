"""`ht diff --task`: what both sides share is folded, what differs stands side by side where there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.cli.parting import partings, render_task
from harnesstrain.cli.revisions import Range
from harnesstrain.cli.styled import text_of, width_of
from tests.project import Project
from tests.storied import Story, tell


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """A short history."""
    return tell(Story(epochs=4, tasks=6, steps=40, even=True), tmp_path_factory.mktemp("told"), cache_folder)


def shown(told: Project, *, width: int | None, full: bool = False) -> list[str]:
    """The cell that parts latest of all."""
    with told.store() as store:
        pairs = [Range(base=one.base_run or "", cand=one.cand_run) for one in store.epochs() if one.cand_run]
        every = [(parting, pair) for pair in pairs for parting in partings(store, pair, None).tasks]
        latest, pair = max(every, key=lambda one: one[0].divergence.step)
        assert latest.divergence.step > 3
        found = partings(store, pair, latest.task)
        return [text_of(one) for one in render_task(store, pair, found, full=full, width=width)]


def test_the_shared_beginning_is_folded(told: Project) -> None:
    folded, full = shown(told, width=None), shown(told, width=None, full=True)
    (count,) = [int(one.split()[0]) for one in folded if "folded; --full shows each" in one]
    equal = [[one for one in lines if one.startswith("  = ")] for lines in (folded, full)]
    assert (len(equal[0]), len(equal[1])) == (3, 3 + count)
    assert equal[1][-3:] == equal[0]
    assert not any("folded" in one for one in full)


def test_both_sides_and_how_they_ended(told: Project) -> None:
    lines = shown(told, width=80)
    assert any(one.startswith("  they part at step ") for one in lines)
    assert any(one.startswith("  - ") for one in lines) or any(one.startswith("  + ") for one in lines)
    assert [one.split(":")[0].strip() for one in lines if one.startswith(("  baseline:", "  candidate:"))] == [
        "baseline",
        "candidate",
    ]
    assert sum(one.startswith("    `ht show ") for one in lines) == 2


def test_side_by_side_where_there_is_room(told: Project) -> None:
    lines = shown(told, width=140)
    (heads,) = [one for one in lines if one.startswith("  baseline:")]
    assert "candidate:" in heads
    bars = {one.index(" │ ") for one in lines[lines.index(heads) :] if " │ " in one and width_of(one) > 70}
    assert len(bars - {5}) == 1
    assert max(map(width_of, lines)) <= 140
