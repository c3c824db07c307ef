"""Text from models, tasks and harnesses, made safe to show: it must not move a cursor, hide itself or forge markup."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_ESCAPES = re.compile(
    r"(?:\x1b[P\]X^_]|[\x90\x9d\x98\x9e\x9f])[^\x1b\x9c\x07]*(?:\x1b\\|\x9c|\x07|$)"  # strings: OSC, DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|\x1b[ -/]*[0-~]?"  # other escapes
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def plain(text: str) -> str:
    """`text` without escape sequences, control characters and invisible or direction-changing characters.

    Keeps newlines and tabs.  Idempotent.
    """
    text = text.replace("\r\n", "\n")
    while (shorter := _CONTROLS.sub("", _ESCAPES.sub("", text))) != text:
        text = shorter
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, limit: int | None = None) -> str:
    """`plain` on one line, at most `limit` characters; None: all of them."""
    flat = " ".join(plain(text).split())
    return flat if limit is None or len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def cleaned(value: Any) -> Any:
    """Every string inside a JSON value, made plain."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(key) if isinstance(key, str) else key: cleaned(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [cleaned(item) for item in value]
    return value
