"""Normalising volatile tokens of an observation: for comparison only, never for what a harness sees.

The rules are data (`scrub_rules.py`), and so are a user's own (`scrub_file.py`), which come after them.  `scrub` is
idempotent: scrubbed text stays as it is.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.records.sandbox import RunResult

ROUNDS = 4
"""A replacement may complete another rule's pattern; rounds until nothing changes, at most."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text a rule must rewrite, and into what."""

    text: str
    scrubbed: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of volatile token."""

    name: str
    pattern: str
    """Regular expression over bytes, multi-line."""
    replacement: str
    reason: str
    """Why it differs between two runs."""
    matches: tuple[Example, ...]
    ignores: tuple[str, ...]
    """Texts it must leave alone: what carries task signal."""
    needs: tuple[str, ...] = ()
    """Cheap test: at least one of these must occur."""
    command: str | None = None
    """Applies only to the output of commands that match this: they ask for that kind of value."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    pattern: re.Pattern[bytes]
    replacement: bytes
    needs: tuple[bytes, ...]
    command: re.Pattern[str] | None


class _Own:
    """The user's own rules, for the whole process: one project is measured at a time."""

    rules: tuple[Rule, ...] = ()


def use(rules: tuple[Rule, ...]) -> None:
    """Put a user's own rules in force, after the shipped ones; () leaves the shipped ones alone."""
    _Own.rules = rules


def rules_in_force() -> tuple[Rule, ...]:
    """Every rule, in order."""
    from harnesstrain.sandbox.scrub_rules import RULES

    return RULES + _Own.rules


@functools.lru_cache(maxsize=8)
def _compiled(own: tuple[Rule, ...]) -> tuple[_Compiled, ...]:
    from harnesstrain.sandbox.scrub_rules import RULES

    return tuple(
        _Compiled(
            re.compile(rule.pattern.encode(), re.MULTILINE),
            rule.replacement.encode(),
            tuple(text.encode() for text in rule.needs),
            re.compile(rule.command) if rule.command else None,
        )
        for rule in RULES + own
    )


def version() -> str:
    """Digest of the rules in force: a changed rule re-derives scrubbed digests, it never changes a record."""
    return _version(_Own.rules)


@functools.lru_cache(maxsize=8)
def _version(own: tuple[Rule, ...]) -> str:
    from harnesstrain.sandbox.scrub_rules import RULES

    return digest([[rule.name, rule.pattern, rule.replacement, rule.command] for rule in RULES + own])


def scrub(text: bytes, command: str = "") -> bytes:
    """`text` with volatile tokens replaced by names.  `command`: what printed it; some rules depend on it."""
    compiled = _compiled(_Own.rules) if text else ()
    for _ in range(ROUNDS):
        before = text
        for rule in compiled:
            if rule.needs and not any(needed in text for needed in rule.needs):
                continue
            if rule.command is None or rule.command.search(command):
                text = rule.pattern.sub(rule.replacement, text)
        if text == before:
            return text
    return text


def scrubbed_digest(result: RunResult, command: str) -> str:
    """Digest of a result for comparison: exit code, flags, both outputs scrubbed.  Durations do not count."""
    return digest(
        {
            "exit_code": result.exit_code,
            "timed_out": result.timed_out,
            "truncated": result.truncated,
            "stdout": digest_bytes(scrub(result.stdout, command)),
            "stderr": digest_bytes(scrub(result.stderr, command)),
        }
    )
