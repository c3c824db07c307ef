"""Chat messages and tool calls, in OpenAI's form as the trace keeps them, as ATIF has them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

DEEPEST = 64
"""Levels of nesting that are written out."""

_HALF = re.compile("[\ud800-\udfff]")
_IMAGES = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
}


def clean(value: Any, depth: int = 0) -> Any:
    """`value` as any JSON reader takes it.

    Half surrogate pairs are replaced, numbers that JSON does not have are texts, and what lies deeper than DEEPEST is
    its own JSON as text.
    """
    if isinstance(value, str):
        return value if value.isascii() else _HALF.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth > DEEPEST:
        return _json(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): clean(item, depth + 1) for key, item in value.items()}
    return [clean(item, depth + 1) for item in value]


def content_of(value: Any) -> str | list[dict[str, Any]]:
    """A message's content: its text, or its parts.  What is neither text nor an image is kept as its JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return str(clean(value))
    if isinstance(value, list):
        return [_part(part) for part in value]
    return _json(value)


def calls_of(calls: Iterable[Any], prefix: str) -> list[dict[str, Any]]:
    """Tool calls `{id, name, arguments}` or OpenAI's nested form.

    Arguments that are no JSON object are kept as `{"text": …}`.  An id that is missing or there already is made anew
    from `prefix`.
    """
    found: list[dict[str, Any]] = []
    taken: set[str] = set()
    for number, call in enumerate(calls):
        table = call if isinstance(call, Mapping) else {}
        function = table.get("function")
        inner = function if isinstance(function, Mapping) else table
        given = str(clean(str(table.get("id") or "")))
        name = given if given and given not in taken else f"{prefix}.{number}"
        taken.add(name)
        made: dict[str, Any] = {
            "tool_call_id": name,
            "function_name": clean(str(inner.get("name") or "")),
            **_arguments(inner.get("arguments")),
        }
        if name != given and given:
            made.setdefault("extra", {})["given_id"] = given
        found.append(made)
    return found


def _arguments(value: Any) -> dict[str, Any]:
    parsed = value
    if isinstance(value, str):
        try:
            parsed = json.loads(value, parse_constant=_refuse)
        except (ValueError, RecursionError):
            parsed = None
    if isinstance(parsed, Mapping):
        return {"arguments": clean(parsed)}
    text = value if isinstance(value, str) else _json(value)
    return {"arguments": {"text": clean(text)}, "extra": {"malformed": True}}


def _refuse(name: str) -> None:
    raise ValueError(name)


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": clean(part["text"])}
    if isinstance(part, Mapping) and part.get("type") == "image_url":
        image = part.get("image_url")
        url = str(image.get("url") or "") if isinstance(image, Mapping) else str(image or "")
        kind = _IMAGES.get(url.partition("?")[0].rpartition(".")[2].lower())
        if kind is not None and not url.startswith("data:"):
            return {"type": "image", "source": {"media_type": kind, "path": clean(url)}}
    return {"type": "text", "text": part if isinstance(part, str) else _json(part)}


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "(nested too deeply)"
    return text if text.isascii() else _HALF.sub("\ufffd", text)
