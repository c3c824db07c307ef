"""Records as canonical JSON text and back.

Text is kept exactly: keys sorted, no spaces, everything outside ASCII escaped, so that any string a record can hold
goes into any database.  Infinity and NaN are the strings that pydantic reads back.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from harnesstrain.core.records.base import Record


def fields_of(record: Record) -> dict[str, Any]:
    """The record's fields as plain JSON values."""
    plain = _plain(record.model_dump(mode="json"))
    assert isinstance(plain, dict)
    return plain


def encode(fields: dict[str, Any]) -> str:
    """Canonical JSON text of plain fields."""
    return json.dumps(fields, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def payload_digest(payload: str) -> str:
    """sha256 of the payload's bytes."""
    return hashlib.sha256(payload.encode("ascii", "backslashreplace")).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
