"""The wire: one JSON object per line, bytes as text or base64, answers and typed error answers.

A line that is no JSON object is the harness's crash: PolicyFailure, with the line quoted.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NoReturn

from pydantic_core import from_json

from harnesstrain.core.digests import encoder
from harnesstrain.core.errors import HtError, PolicyFailure

MAX_LINE = 16 * 1024 * 1024
"""Bytes of one message, line end included."""

MAX_DEPTH = 64
"""Levels of nesting in params."""

QUOTED = 200
"""Characters of an offending line shown in an error."""


class ErrorKind(StrEnum):
    """Error answers, by the name that the SDK turns into an exception."""

    METHOD_NOT_FOUND = "method_not_found"
    BAD_PARAMS = "bad_params"
    INTERNAL = "internal"
    CONTEXT_OVERFLOW = "context_overflow"
    RATE_LIMITED = "rate_limited"
    TRANSPORT = "transport"
    FILE_FAULT = "file_fault"
    EPISODE_OVER = "episode_over"


CODES: Mapping[ErrorKind, int] = {
    ErrorKind.METHOD_NOT_FOUND: -32601,
    ErrorKind.BAD_PARAMS: -32602,
    ErrorKind.INTERNAL: -32603,
    ErrorKind.CONTEXT_OVERFLOW: -32001,
    ErrorKind.RATE_LIMITED: -32002,
    ErrorKind.TRANSPORT: -32003,
    ErrorKind.FILE_FAULT: -32004,
    ErrorKind.EPISODE_OVER: -32005,
}
"""JSON-RPC codes of the error kinds."""

Id = int | str


class CallRefused(PolicyFailure):
    """A request that cannot be served as it is.  Answer it with `answer()` and go on."""

    def __init__(self, request: Id, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.request = request
        self.error = kind

    def answer(self) -> dict[str, Any]:
        """The error answer to send."""
        return error_answer(self.request, self.error, self.message)


def pack(data: bytes) -> dict[str, str]:
    """Bytes on the wire: `{"text": str}` when valid UTF-8, else `{"base64": str}`."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def unpack(value: Any) -> bytes:
    """The inverse of `pack`.  Raises ValueError when `value` is not exactly one of the two forms."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        ((form, text),) = value.items()
        if form == "text" and isinstance(text, str):
            return text.encode("utf-8")
        if form == "base64" and isinstance(text, str):
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                msg = "invalid base64"
                raise ValueError(msg) from error
    msg = 'bytes travel as {"text": str} or {"base64": str}'
    raise ValueError(msg)


_encode = encoder(allow_nan=False)


class Message(dict[str, Any]):
    """A decoded line."""

    plain = False
    """Its line shows that it nests little and escapes no character: no string can hold half of one."""


def decode(line: bytes) -> Message:
    """The JSON object in one line.  Raises PolicyFailure, quoting the line, when there is none."""
    if len(line) > MAX_LINE:
        malformed(line, f"it is longer than {MAX_LINE} bytes")
    plain = b"\\u" not in line and line.count(b"{") + line.count(b"[") <= MAX_DEPTH
    try:
        message = _quickly(line) if plain else _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError:
        malformed(line, "it is not UTF-8")
    except RecursionError:
        malformed(line, "it is nested too deeply")
    except ValueError:
        malformed(line, "it is not JSON")
    if not isinstance(message, dict):
        malformed(line, "it is not a JSON object")
    decoded = Message(message)
    decoded.plain = plain
    return decoded


def _quickly(line: bytes) -> Any:
    """What `json` makes of a plain line; its errors too."""
    try:
        return from_json(line, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        return _DECODER.decode(line.decode("utf-8"))


def encode(message: Mapping[str, Any]) -> bytes:
    """One line for the harness's stdin."""
    return _encode(message).encode("ascii") + b"\n"


def answer(request: Id, result: Any) -> dict[str, Any]:
    """A result for the harness."""
    return {"jsonrpc": "2.0", "id": request, "result": result}


def error_answer(request: Id, kind: ErrorKind, message: str, **data: Any) -> dict[str, Any]:
    """A typed error for the harness; `data` travels along (errno, path, reason)."""
    error = {"code": CODES[kind], "message": message, "data": {"kind": kind.value, **data}}
    return {"jsonrpc": "2.0", "id": request, "error": error}


def failure_answer(request: Id, error: HtError) -> dict[str, Any]:
    """The error answer for a failure of the model: a refused request is `bad_params`, an unknown one `internal`."""
    kinds = {kind.value: kind for kind in ErrorKind} | {"bad_request": ErrorKind.BAD_PARAMS}
    return error_answer(request, kinds.get(error.kind, ErrorKind.INTERNAL), error.message)


def malformed(line: bytes | Mapping[str, Any], why: str) -> NoReturn:
    """Raise the PolicyFailure for a message that breaks the protocol, quoting it."""
    raw = line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=True).encode("ascii")
    raise PolicyFailure(
        f"malformed message: {why}: {quote(raw)}",
        hint="`ht harness check` shows what the harness sends; only the SDK may write to stdout",
    )


def quote(raw: bytes) -> str:
    """At most QUOTED characters of `raw`, printable."""
    text = raw[: QUOTED * 4].decode("utf-8", "replace").rstrip("\r\n")
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:QUOTED])
    return f"'{shown}'" + ("…" if len(text) > QUOTED or len(raw) > QUOTED * 4 else "")


def _constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


_DECODER = json.JSONDecoder(parse_constant=_constant)
