"""What is laid out for a terminal fits it, and loses nothing but what it says it leaves out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.cli.chronicle import promotions
from harnesstrain.cli.reporting import hanging, render, table, wrapped
from harnesstrain.cli.styled import ansi, clipped, cut, flowed, line, padded, text_of, width_of
from harnesstrain.stages.report.records import EpochRow
from harnesstrain.stages.report.tables import Part, Table

WORDS = st.text(alphabet=st.sampled_from("ab c漢é-|\x1b[31m\u202e"), max_size=60)


@given(text=WORDS, columns=st.integers(1, 30))
def test_a_clipped_text_fits(text: str, columns: int) -> None:
    short = clipped(text, columns)
    assert width_of(short) <= columns
    assert short == text or short.endswith("…")
    assert width_of(padded(short, columns)) == columns


@given(text=st.text(alphabet=st.sampled_from("ab 漢é"), max_size=200), width=st.integers(2, 40))
def test_a_wrapped_text_fits_and_is_whole(text: str, width: int) -> None:
    for lines in (wrapped(text, width), hanging(text, width)):
        assert max(map(width_of, lines)) <= width
        assert "".join("".join(lines).split()) == "".join(text.split())


@given(
    rows=st.lists(st.tuples(WORDS, WORDS, st.sampled_from("●×·")), min_size=1, max_size=4), width=st.integers(30, 120)
)
def test_a_table_fits(rows: list[tuple[str, ...]], width: int) -> None:
    lines = table(Table(heads=("name", "what it says", "!"), rows=tuple(rows), right=("!",)), width)
    assert max((width_of(text_of(one)) for one in lines), default=0) <= width
    assert not re.search("[\x1b\u202e]", "".join(map(text_of, lines)))


def test_long_columns_go_below_and_empty_ones_away() -> None:
    told = Table(
        heads=("epoch", "state", "none", "reason"),
        rows=(("1", "▲ promoted", "–", "it gained one and lost nothing at all"), ("2", "× rejected", "–", "–")),
        right=("epoch",),
    )
    assert [text_of(one) for one in table(told, 80)] == [
        "  epoch  state       reason",
        "      1  ▲ promoted  it gained one and lost nothing at all",
        "      2  × rejected  –",
    ]
    assert [text_of(one) for one in table(told, 34)] == [
        "  epoch  state",
        "      1  ▲ promoted",
        "      reason: it gained one and",
        "      lost nothing at all",
        "      2  × rejected",
    ]


def test_a_matrix_keeps_its_newest_columns() -> None:
    heads = ("task", *(f"e{n}" for n in range(1, 31)))
    lines = [text_of(one) for one in table(Table(heads=heads, rows=(("fix-it", *"●" * 30),)), 40)]
    assert lines[0].split() == ["task", *(f"e{n}" for n in range(23, 31))]
    assert lines[1].split() == ["fix-it", *"●" * 8]
    assert "22 more columns" in lines[2]


@pytest.mark.parametrize("width", [40, 80])
def test_a_report_is_the_parts_in_their_order(width: int) -> None:
    parts = (
        Part(title="First", sentences=("A sentence that is too long for forty columns of a terminal.", "  - below")),
        Part(title="Second", text="pre\n  − gone\n  + come\n\x1b]52;c;eA==\x07end"),
    )
    lines = [text_of(one) for one in render("Title", parts, width)]
    assert [one for one in lines if one in ("Title", "First", "Second")] == ["Title", "First", "Second"]
    assert lines[-4:] == ["  │ pre", "  │   − gone", "  │   + come", "  │ end"]
    assert max(map(len, lines)) <= width


def test_a_line_in_colour_and_without() -> None:
    made = line("a ", ("b\x1b[5m\n", "red bold"), ("c", "unheard of"))
    assert text_of(made) == "a b c"
    assert ansi(made) == "a \x1b[31;1mb \x1b[0mc"
    assert text_of(cut(made, 4)) == "a b"
    assert [text_of(one) for one in flowed(["one", "two", "three"], 11)] == ["  one · two", "  three"]


def test_promotions_stand_below_the_point_that_they_led_to() -> None:
    def epoch(number: int, state: str, base: int | None, solved: int | None = None) -> EpochRow:
        return EpochRow(number=number, state=state, base_solved=base, solved=solved)

    assert promotions(()) == ""
    rows = [epoch(1, "promoted", 1, 2), epoch(2, "skipped", 2), epoch(3, "rejected", 2, 1), epoch(4, "promoted", 2, 3)]
    assert promotions(rows) == " ▲  ▲"
    assert promotions(rows[:3]) == " ▲ "
    assert promotions([*rows[:1], epoch(2, "abandoned", None), epoch(3, "rejected", 2, 1)]) == " ▲"
