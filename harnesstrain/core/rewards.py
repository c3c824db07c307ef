"""What a verifier wrote, read strictly: `reward.json` when it is there, else `reward.txt`.

Nothing here guesses.  A reward that cannot be read is a VerifierFailure, never 0: a broken verifier is no measurement.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.records.sandbox import Grade

MAX_BYTES = 64 * 1024
"""Size of a reward file, at most."""

MAIN = "reward"
"""The key that is the reward when there are several."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?")


def parse_reward(txt: bytes | None, json_: bytes | None) -> Grade:
    """The grade in the two reward files; None: the file is not there.

    `reward.json` is a flat object of finite numbers or booleans and wins over `reward.txt`, which holds one number.
    The reward of an object is its `reward` key, else its only value, else its smallest: solved means every
    sub-reward passes.  Raises VerifierFailure; `missing` in its `extra`: there is no file at all.
    """
    if json_ is not None:
        rewards = _object(_text("reward.json", json_))
        return Grade(reward=rewards.get(MAIN, min(rewards.values())), rewards=rewards)
    if txt is not None:
        return Grade(reward=_number(_text("reward.txt", txt)))
    raise VerifierFailure(
        "the verifier wrote no reward",
        hint="tests/test.sh must write /logs/verifier/reward.txt or reward.json",
        missing=True,
    )


def _text(name: str, data: bytes) -> str:
    if len(data) > MAX_BYTES:
        _wrong(name, f"has {len(data)} bytes, more than {MAX_BYTES}")
    try:
        text = data.decode("utf-8").strip()
    except UnicodeDecodeError:
        _wrong(name, "is not UTF-8")
    if not text:
        _wrong(name, "is empty")
    return text


def _number(text: str) -> float:
    value = float(text) if text.isascii() and _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        _wrong("reward.txt", "does not hold one finite number")
    return value


def _object(text: str) -> dict[str, float]:
    name = "reward.json"
    try:
        found = json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, RecursionError):
        _wrong(name, "is not JSON")
    if not isinstance(found, _Pairs):
        _wrong(name, "is not an object of numbers")
    if not found.items:
        _wrong(name, "has no reward in it")
    rewards: dict[str, float] = {}
    for key, value in found.items:
        if key in rewards:
            _wrong(name, f"has the key '{key}' twice")
        rewards[key] = _finite(name, key, value)
    return rewards


def _finite(name: str, key: str, value: Any) -> float:
    if not isinstance(value, int | float):
        _wrong(name, f"has a '{key}' that is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        _wrong(name, f"has a '{key}' that is not finite")
    return number


class _Pairs:
    """A JSON object with its keys in order, repeated ones included."""

    def __init__(self, items: list[tuple[str, Any]]) -> None:
        self.items = items


def _pairs(items: list[tuple[str, Any]]) -> _Pairs:
    return _Pairs(items)


def _wrong(name: str, what: str) -> NoReturn:
    raise VerifierFailure(f"the verifier's {name} {what}", hint="correct tests/test.sh; `ht tasks oracle` runs it")
