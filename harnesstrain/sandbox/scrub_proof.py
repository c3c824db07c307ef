"""A user's scrub rules, run on their examples in a process of their own: a pattern may take for ever.

`python -P -m harnesstrain.sandbox.scrub_proof` reads rules on standard input and answers with one JSON line a rule.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harnesstrain.sandbox.scrub import Rule

LIMIT = 10.0
"""Seconds for all rules of a file.  An example takes microseconds."""


@dataclass(frozen=True)
class Proof:
    """What a rule makes of its examples."""

    matches: tuple[tuple[str, str], ...] = ()
    """Of each text: the result, and what the rule makes of that."""
    ignores: tuple[str, ...] = ()
    problem: str | None = None
    """Why the replacement does not fit the pattern."""


def prove(rules: Sequence[Rule]) -> list[Proof]:
    """A proof of each rule, in order.  It is shorter than `rules` where one did not come to an end in time."""
    asked = json.dumps([asdict(rule) for rule in rules])
    command = [sys.executable, "-P", "-m", __name__]
    try:
        done = subprocess.run(command, input=asked.encode(), capture_output=True, timeout=LIMIT, check=True)
        said = done.stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    whole = said[: said.rfind(b"\n") + 1]
    found = [json.loads(line) for line in whole.splitlines()]
    return [
        Proof(tuple((one, again) for one, again in each["matches"]), tuple(each["ignores"]), each["problem"])
        for each in found
    ]


def outcome(rule: dict[str, Any]) -> Proof:
    """The proof of one rule, here and now."""
    try:
        matches = []
        for example in rule["matches"]:
            once = applied(rule, example["text"], example["command"])
            matches.append((once, applied(rule, once, example["command"])))
        return Proof(tuple(matches), tuple(applied(rule, text, "") for text in rule["ignores"]))
    except (re.error, IndexError) as error:
        return Proof(problem=str(error))


def applied(rule: dict[str, Any], text: str, command: str) -> str:
    """`text`, which `command` printed, with the rule applied."""
    if rule["needs"] and not any(needed in text for needed in rule["needs"]):
        return text
    if rule["command"] is not None and not re.search(rule["command"], command):
        return text
    changed = re.sub(rule["pattern"].encode(), rule["replacement"].encode(), text.encode(), flags=re.MULTILINE)
    return changed.decode("utf-8", "replace")


if __name__ == "__main__":
    for each in json.load(sys.stdin):
        sys.stdout.write(json.dumps(asdict(outcome(each))) + "\n")
        sys.stdout.flush()
