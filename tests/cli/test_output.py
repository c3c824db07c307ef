"""Text of models and tasks cannot drive a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.cli.output import clean


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\rb", "ab"),
        ("abc\x08\x08", "abc"),
        ("\u202egnp.exe", "gnp.exe"),
        ("\x9b31mred", "31mred"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
    ],
)
def test_sequences_are_stripped(hostile: str, harmless: str) -> None:
    assert clean(hostile) == harmless


@given(st.text())
def test_nothing_that_controls_is_left(text: str) -> None:
    left = clean(text)
    assert not any(c < " " and c not in "\n\t" for c in left)
    assert "\x1b" not in left
    assert clean(left) == left
