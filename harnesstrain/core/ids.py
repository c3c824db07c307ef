"""Ids are digests of canonical specs.  People see eight hex characters and may type any unique prefix of four."""

from __future__ import annotations

from collections.abc import Iterable

from harnesstrain.core.errors import Ambiguous, NotFound, UsageError

SHORT = 8
"""Characters shown to people."""

SHORTEST = 4
"""Fewest characters accepted as a prefix."""


def short(identifier: str) -> str:
    """The form shown to people."""
    return identifier[:SHORT]


def is_hex(text: str) -> bool:
    """Whether `text` could be an id or a prefix of one."""
    return bool(text) and all(c in "0123456789abcdef" for c in text)


def pick(prefix: str, known: Iterable[str], what: str = "id") -> str:
    """The one member of `known` that starts with `prefix`.

    Raises UsageError (too short), NotFound (none) or Ambiguous (several; carries `candidates`).
    """
    if len(prefix) < SHORTEST:
        raise UsageError(f"{what} '{prefix}' is too short", hint=f"give at least {SHORTEST} characters")
    found = sorted({item for item in known if item.startswith(prefix)})
    if not found:
        raise NotFound(f"no {what} starts with '{prefix}'", hint="`ht log` lists what there is")
    if len(found) > 1 and prefix not in found:
        shown = ", ".join(short(item) for item in found[:5])
        raise Ambiguous(f"{what} '{prefix}' is ambiguous: {shown}", hint="give more characters", candidates=found)
    return prefix if prefix in found else found[0]
