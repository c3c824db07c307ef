"""Prefixes of ids."""

from __future__ import annotations

import pytest

from harnesstrain.core.errors import Ambiguous, NotFound, UsageError
from harnesstrain.core.ids import is_hex, pick, short

KNOWN = ["aaaa1111" + "0" * 56, "aaaa2222" + "0" * 56, "bbbb" + "0" * 60]


def test_a_unique_prefix_is_enough() -> None:
    assert pick("bbbb", KNOWN) == KNOWN[2]
    assert pick("aaaa1", KNOWN) == KNOWN[0]
    assert pick(KNOWN[1], KNOWN) == KNOWN[1]
    assert pick("abcd", ["abcd", "abcdef"]) == "abcd"


def test_what_does_not_name_one_is_said() -> None:
    with pytest.raises(UsageError, match="too short"):
        pick("aaa", KNOWN)
    with pytest.raises(NotFound, match="no run starts with 'cccc'"):
        pick("cccc", KNOWN, "run")
    with pytest.raises(Ambiguous) as caught:
        pick("aaaa", KNOWN)
    assert caught.value.extra["candidates"] == KNOWN[:2]


def test_forms() -> None:
    assert short(KNOWN[0]) == "aaaa1111"
    assert is_hex("09af")
    assert not is_hex("")
    assert not is_hex("0G")
