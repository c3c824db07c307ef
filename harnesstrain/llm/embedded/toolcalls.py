"""Tool calls in reply text: `<tool_call>` blocks that hold exactly one JSON object with a name and arguments.

Strict on purpose.  A block that is not right is no call; the text stays in the reply, and what to make of it is the
harness's business.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from harnesstrain.core.digests import digest
from harnesstrain.core.records.llm import ToolCall

CALL_END = "</tool_call>"
"""What closes a block."""

_BLOCK = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class _Called(NamedTuple):
    name: str
    arguments: str


def calls_in(text: str, salt: str = "") -> tuple[ToolCall, ...]:
    """Every well-formed call in `text`, in order.  Ids are a function of `salt`, the text and the place.

    Arguments are the JSON text as the model wrote it.
    """
    if "<tool_call>" not in text:
        return ()
    found = [called for block in _BLOCK.finditer(text) if (called := _called(block.group(1)))]
    return tuple(
        ToolCall(id=f"call_{digest([salt, text, place])[:16]}", name=called.name, arguments=called.arguments)
        for place, called in enumerate(found)
    )


def without_calls(text: str) -> str:
    """`text` without its well-formed blocks."""
    return _BLOCK.sub(lambda block: "" if _called(block.group(1)) else block.group(0), text).strip()


def _called(body: str) -> _Called | None:
    """The call that a block's JSON text makes, or None when it makes none."""
    try:
        members = _members(body)
    except (ValueError, RecursionError):
        return None
    if set(members) != {"name", "arguments"}:
        return None
    name, arguments = json.loads(members["name"]), members["arguments"]
    if not isinstance(name, str) or not name or not arguments.startswith("{"):
        return None
    return _Called(name, arguments)


def _members(body: str) -> dict[str, str]:
    """The members of a JSON object as name to raw JSON text.  Raises ValueError when it is not one object."""
    value: Any = json.loads(body, parse_constant=_refuse)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    members: dict[str, str] = {}
    position = _skip(body, 1)
    while body[position] != "}":
        key, position = _DECODER.raw_decode(body, position)
        start = _skip(body, _skip(body, position) + 1)
        _, end = _DECODER.raw_decode(body, start)
        members[key] = body[start:end]
        position = _skip(body, end)
        if body[position] == ",":
            position = _skip(body, position + 1)
    return members


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _skip(text: str, position: int) -> int:
    """The first position at or after `position` that is not JSON space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position
