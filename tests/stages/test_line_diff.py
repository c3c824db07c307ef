"""Two texts side by side: nothing is lost, nothing is invented, and what is left out is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.stages.report.linediff import COMPARED, DiffRow, Mark, SideBySide, side_by_side

_line = st.one_of(st.sampled_from(["", "one", "two three", "two four", "five six seven"]), st.text(max_size=12))
_text = st.lists(_line.map(lambda line: line.replace("\n", " ")), min_size=1, max_size=30).map("\n".join)


def _put_together(found: SideBySide, base: str, cand: str) -> tuple[list[str], list[str]]:
    """The lines of both sides that the rows stand for.  Folded ones are looked up, and must be equal on both sides."""
    left, right = base.split("\n"), cand.split("\n")
    one: list[str] = []
    two: list[str] = []
    for row in found.rows:
        if row.tag == "folded":
            assert left[len(one) : len(one) + row.count] == right[len(two) : len(two) + row.count]
            two += right[len(two) : len(two) + row.count]
            one += left[len(one) : len(one) + row.count]
            continue
        one += [row.base] if row.base is not None else []
        two += [row.cand] if row.cand is not None else []
    return one, two


@given(_text, _text, st.integers(0, 40))
def test_the_rows_put_together_are_both_texts(base: str, cand: str, context: int) -> None:
    found = side_by_side(base, cand, context=context, rows=1000, width=1000)
    assert _put_together(found, base, cand) == (base.split("\n"), cand.split("\n"))
    assert (found.base_left, found.cand_left) == (0, 0)
    assert found.differs == (base != cand)


@given(_text, _text, st.integers(0, 6))
def test_rows_beyond_the_bound_are_counted(base: str, cand: str, rows: int) -> None:
    found = side_by_side(base, cand, rows=rows, width=1000)
    assert len(found.rows) <= rows
    one, two = _put_together(found, base, cand)
    assert len(one) + found.base_left == len(base.split("\n"))
    assert len(two) + found.cand_left == len(cand.split("\n"))
    assert one == base.split("\n")[: len(one)]


@given(_text, _text)
def test_tags_say_which_side_has_the_line_and_marks_what_the_other_lacks(base: str, cand: str) -> None:
    for row in side_by_side(base, cand, context=50).rows:
        sides = (row.base is not None, row.cand is not None)
        assert sides == {
            "equal": (True, True), "changed": (True, True), "removed": (True, False), "added": (False, True),
            "folded": (False, False),
        }[row.tag]  # fmt: skip
        assert (row.tag == "folded") == (row.count > 0)
        if row.tag == "equal":
            assert row.base == row.cand
        if row.base_marks or row.cand_marks:
            assert row.tag == "changed"
            assert _without(row.base or "", row.base_marks) == _without(row.cand or "", row.cand_marks)


def _without(line: str, marks: tuple[Mark, ...]) -> str:
    for mark in reversed(marks):
        assert 0 <= mark.start < mark.end <= len(line)
        line = line[: mark.start] + line[mark.end :]
    return line


def test_what_is_equal_is_folded_but_for_two_lines_around_a_change() -> None:
    base = [f"line {n}" for n in range(20)]
    cand = [*base[:10], "new", *base[10:]]
    assert side_by_side("\n".join(base), "\n".join(cand)).rows == (
        DiffRow(tag="folded", count=8),
        DiffRow(tag="equal", base="line 8", cand="line 8"),
        DiffRow(tag="equal", base="line 9", cand="line 9"),
        DiffRow(tag="added", cand="new"),
        DiffRow(tag="equal", base="line 10", cand="line 10"),
        DiffRow(tag="equal", base="line 11", cand="line 11"),
        DiffRow(tag="folded", count=8),
    )


def test_a_side_without_a_text_has_no_lines() -> None:
    assert side_by_side(None, "a\nb").rows == (DiffRow(tag="added", cand="a"), DiffRow(tag="added", cand="b"))
    assert side_by_side(None, None) == SideBySide()
    assert side_by_side("", "a").rows[0].tag == "changed"


def test_words_that_changed_are_marked_and_lines_that_share_hardly_one_are_not() -> None:
    row = side_by_side("say the answer", "say the last answer").rows[0]
    assert (row.base_marks, row.cand_marks) == ((), (Mark(start=8, end=13),))
    other = side_by_side("say the answer", "kumquat").rows[0]
    assert (other.tag, other.base_marks, other.cand_marks) == ("changed", (), ())


def test_of_a_long_line_the_part_around_the_first_difference_is_shown() -> None:
    base, cand = "x" * 5000 + "old" + "y" * 5000, "x" * 5000 + "new" + "y" * 5000
    row = side_by_side(base, cand).rows[0]
    assert row.base is not None and row.cand is not None
    assert "old" in row.base and "new" in row.cand
    assert row.base.startswith("(4940 characters) … ") and row.base.endswith(" … (4663 more characters)")
    assert len(row.base) < 500


def test_texts_that_differ_in_very_many_lines_are_cut_and_say_so() -> None:
    base = "\n".join(f"a{n}" for n in range(5 * COMPARED))
    cand = "\n".join(f"b{n}" for n in range(5 * COMPARED))
    found = side_by_side(base, cand, rows=10_000)
    assert len(found.rows) == COMPARED
    assert (found.base_left, found.cand_left) == (4 * COMPARED, 4 * COMPARED)
