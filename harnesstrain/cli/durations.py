"""Durations as people write them."""

from __future__ import annotations

import re

from harnesstrain.core.errors import UsageError

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

LONGEST = 30 * 365 * UNITS["d"]
"""Seconds that every clock can wait for."""


def seconds(text: str) -> float:
    """`90`, `90s`, `30m`, `2h`, `1h30m` in seconds.  Raises UsageError."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        msg = f"'{text}' is no duration"
        raise UsageError(msg, hint="write e.g. 90s, 30m, 2h, 1h30m")
    total = sum(float(number) * UNITS[unit] for number, unit in parts)
    if total <= 0:
        msg = f"a duration must be positive, not '{text}'"
        raise UsageError(msg, hint="write e.g. 90s, 30m, 2h, 1h30m")
    if total > LONGEST:
        raise UsageError("a duration is at most 30 years", hint="leave it out for none")
    return total
