"""Durations as people write them."""

from __future__ import annotations

import pytest

from harnesstrain.cli.durations import seconds
from harnesstrain.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"), [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400)]
)
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text", ["", "h", "2 h", "-1s", "1w", "0", "1h-2m", "11000d", pytest.param("9" * 400, id="endless")]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError):
        seconds(text)
