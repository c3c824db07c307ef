"""The error tree is what its drawing says, and payloads carry what --json promises."""

from __future__ import annotations

import re

from harnesstrain.core import errors
from harnesstrain.core.errors import Ambiguous, HtError, Owner, UsageError


def tree() -> list[type[HtError]]:
    found, todo = [], [HtError]
    while todo:
        kind = todo.pop()
        found.append(kind)
        todo += kind.__subclasses__()
    return [kind for kind in found if kind.__module__ == errors.__name__]


def test_the_drawing_names_every_class_with_its_kind_and_code() -> None:
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"[│├└─ ]*([A-Z]\w+)\s+(\w+)(?:\s+(\d))?(?:\s|$)", line):
            drawn[match[1]] = (match[2], match[3])
    classes = {kind.__name__: kind for kind in tree()}
    assert set(drawn) >= set(classes)
    for name, kind in classes.items():
        shown_kind, code = drawn[name]
        assert shown_kind == kind.kind, name
        if code:
            assert int(code) == kind.exit_code, name


def test_kinds_are_one_per_class() -> None:
    kinds = [kind.kind for kind in tree()]
    assert len(kinds) == len(set(kinds))


def test_a_payload_has_kind_message_hint_and_what_came_along() -> None:
    error = Ambiguous("which?", hint="say more", candidates=["a", "b"])
    assert error.payload() == {
        "kind": "ambiguous",
        "message": "which?",
        "hint": "say more",
        "candidates": ["a", "b"],
    }
    assert str(error) == "which?"
    assert isinstance(error, UsageError)
    assert UsageError("x").payload()["hint"] is None


def test_only_policy_failures_and_overflow_are_the_harnesss_own() -> None:
    assert {kind.__name__ for kind in tree() if kind.owner is Owner.POLICY} == {"PolicyFailure", "ContextOverflow"}
