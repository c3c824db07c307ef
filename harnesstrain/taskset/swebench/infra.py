"""Signs that the place where tests ran was broken, as data.

A sign counts only where a run left nothing to grade, so that what a test prints cannot excuse its failure.  Lines of a
diff, a commit message or a traced command (they start with a space, `+`, `-` or `@`) never count: a change could hold
any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harnesstrain.core.records.base import Record

EVIDENCE = 200
"""Characters of a log's line that are quoted, at most."""

KILLED = (137, 143)
"""Exit codes of a test command that was killed or told to stop from outside."""


class Infra(Record):
    """Why there is no grade."""

    reason: str
    """One word of RULES, or `killed`, `out_of_memory`, `cut_short`."""
    evidence: str
    """The line that says so, or the fact."""


@dataclass(frozen=True)
class Rule:
    """One sign."""

    reason: str
    pattern: str
    """Searched in a single line of the log."""
    early: bool = True
    """Whether it counts before the tests began, where they did begin."""


_SHELL = r"^(?:\S+: (?:(?:line )?\d+: *)?)?"

RULES = (
    Rule("container_gone", r"Error response from daemon|Cannot connect to the Docker daemon|^Error: No such container"),
    Rule("no_environment", _SHELL + r"/opt/miniconda3/bin/activate: No such file"),
    Rule("no_environment", r"EnvironmentNameNotFound|^EnvironmentLocationNotFound"),
    Rule("no_environment", _SHELL + r"cd: /testbed: No such file"),
    Rule("missing_tool", _SHELL + r"(?:git|patch|python3?|pytest|tox|conda|uvx?): (?:command )?not found$"),
    Rule("missing_tool", r"^(?:/usr/bin/)?env: .?(?:python3?|bash).?: No such file"),
    Rule(
        "no_network",
        r"Could not resolve host|Temporary failure in name resolution|Network is unreachable",
        early=False,  # installing once more without a network always says so
    ),
    Rule("out_of_memory", r"Cannot allocate memory|^(?:fatal: )?[Oo]ut of memory|oom-kill|^MemoryError\b"),
    Rule("killed", _SHELL + r"(?:\d+ )?Killed\b"),
    Rule("no_space", r"No space left on device|Disk quota exceeded"),
    Rule("read_only", r"Read-only file system"),
)
"""In order of importance: the first that holds is the reason."""

_FOREIGN = (" ", "+", "-", "@", "\t")
_COMPILED = tuple((rule, re.compile(rule.pattern)) for rule in RULES)
_ANY = re.compile("|".join(f"(?:{rule.pattern})" for rule in RULES), re.MULTILINE)


def find_sign(log: str, began: str | None = None) -> Infra | None:
    """The most important sign in `log`; None when there is none.  `began`: the marker of the tests' output."""
    if _ANY.search(log) is None:
        return None
    before, marker, after = log.partition(began) if began else ("", "", log)
    early, late = (_telling(before), _telling(after)) if marker or not began else ([], _telling(log))
    for rule, pattern in _COMPILED:
        for line in (*early, *late) if rule.early else late:
            if pattern.search(line):
                quoted = line.strip()[:EVIDENCE].encode("utf-8", "replace").decode("utf-8")
                return Infra(reason=rule.reason, evidence=quoted)
    return None


def _telling(text: str) -> list[str]:
    return [line for line in text.split("\n") if not line.startswith(_FOREIGN) and _ANY.search(line)]
