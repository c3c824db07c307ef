"""HTTP statuses and error bodies to and from the error tree."""

from __future__ import annotations

import json
import re
from typing import Any

from harnesstrain.core.errors import (
    BadRequest,
    ConfigError,
    ContextOverflow,
    HtError,
    LlmFailure,
    RateLimited,
    Refused,
    TransportFailure,
)

RETRIED = frozenset({408, 425, 429, *range(500, 600)} - {501, 505})
"""Statuses that may pass by themselves."""

ABOUT_THE_REQUEST = frozenset({400, 413, 422})
"""Statuses that speak of what the request holds.  Every other refusal would meet any request."""

DEPENDENCY = 424
"""What the front answers when whatever it serves cannot answer, and asking again would not help."""

OVERFLOW_CODE = "context_length_exceeded"

_OVERFLOW = re.compile(
    "|".join(
        (
            r"context_length_exceeded",  # OpenAI, our front
            r"exceed_context_size_error",  # llama-server
            r"maximum context length",  # OpenAI, vLLM, sglang, Mistral
            r"longer than the model'?s context length",  # sglang
            r"exceeds? the available context size",  # llama-server
            r"exceeds? the (?:model'?s )?context (?:length|window|size)",
            r"prompt is too long",  # Anthropic and its imitators
            r"input token count .{0,40}exceeds the maximum",  # Gemini
            r"reduce the length of the (?:messages|input|prompt)",  # Groq, vLLM
            r"`inputs` tokens \+ `max_new_tokens` must be <=",  # TGI
        )
    ),
    re.IGNORECASE,
)

_STANDING_CODES = frozenset(
    {"invalid_api_key", "model_not_found", "insufficient_quota", "authentication_error", "billing_error"}
)
"""Codes and types of an error that some servers send with 400, though it is not about the request."""

_STANDING = re.compile(r"api key (?:not valid|expired)|your credit balance is too low", re.IGNORECASE)
"""The same, as messages that begin so: Gemini, Anthropic."""

_NO_ROOM = "the request does not fit the model's context"

_WORDING = " (maximum context length exceeded)"
"""Clients that do not look at the code recognise an overflow by these words."""

_SHOWN = 200
"""Characters of a server's own words that a message quotes."""


def failure(status: int, text: str) -> LlmFailure:
    """The typed failure for an error answer.  `text`: the body with every secret already taken out of it."""
    if status in (401, 403):
        # Servers like to quote the key they refuse, so nothing of their answer is repeated.
        return Refused(
            f"the endpoint refused the API key ({status})",
            hint="check the environment variable that holds the key",
            status=status,
        )
    said = _said(text)
    if status in ABOUT_THE_REQUEST and _OVERFLOW.search(text):
        words = said.removesuffix(_WORDING)
        return ContextOverflow(words if words.startswith(_NO_ROOM) else f"{_NO_ROOM}: {words}", status=status)
    if status == 429:
        return RateLimited("the endpoint is rate limited (429)", hint="lower --jobs, or wait", status=status)
    if status in RETRIED:
        return TransportFailure(
            f"the endpoint failed ({status}): {said}", hint="look at the model server's log", status=status
        )
    if status == 402:
        hint = "check the credit of the account that the key belongs to"
        return Refused(f"the endpoint wants to be paid (402): {said}", hint=hint, status=status)
    if status == 404:
        hint = "check the URL (it ends in /v1) and the model name"
        return Refused(f"the endpoint knows no such model or route (404): {said}", hint=hint, status=status)
    about = status in ABOUT_THE_REQUEST and not _stands(text, said)
    kind = BadRequest if about else Refused
    return kind(f"the endpoint refused the request ({status}): {said}", status=status)


def error_body(message: str, *, kind: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """An error in the OpenAI shape."""
    return {"error": {"message": message, "type": kind, "code": code, "param": param}}


def status_and_body(error: HtError) -> tuple[int, dict[str, Any]]:
    """How the front answers a failure of its model."""
    kind = "invalid_request_error"
    if isinstance(error, ContextOverflow):
        message = error.message + _WORDING
        return 400, error_body(message, kind=kind, code=OVERFLOW_CODE, param="messages")
    if isinstance(error, BadRequest):
        return 400, error_body(error.message, kind=kind, code=error.kind)
    if isinstance(error, Refused | ConfigError):
        status = error.extra.get("status", DEPENDENCY)
        passes = 400 <= status < 500 and status not in ABOUT_THE_REQUEST
        said = error_body(error.message, kind="upstream_error", code=error.kind)
        return status if passes else DEPENDENCY, said
    if isinstance(error, RateLimited):
        return 429, error_body(error.message, kind="rate_limit_error", code=error.kind)
    status = 502 if isinstance(error, TransportFailure) else 500
    return status, error_body(error.message, kind="server_error", code=error.kind)


def _stands(text: str, said: str) -> bool:
    """Whether an error answer speaks of the key, the account or the model, and not of the request."""
    error = _error(text)
    codes = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
    return _STANDING.match(said) is not None or any(code in codes for code in _STANDING_CODES)


def _error(text: str) -> Any:
    """What an error answer holds: mostly an object, sometimes text."""
    try:
        body: Any = json.loads(text)
    except ValueError:
        return _page(text)
    if isinstance(body, list) and len(body) == 1:  # Gemini
        body = body[0]
    return body.get("error", body) if isinstance(body, dict) else body


def _page(text: str) -> str:
    """The title of a page that is meant for a browser; anything else as it is."""
    if not re.match(r"\s*<(?:!doctype\s+html|html|head)\b", text, re.IGNORECASE):
        return text
    title = re.search(r"<title[^>]*>([^<]*)<", text, re.IGNORECASE)
    return f"a web page, '{title.group(1).strip()}'" if title else "a web page"


def _said(text: str) -> str:
    """The server's own words on one line, short, without control characters."""
    said = _error(text)
    if isinstance(said, dict):
        said = said.get("message") or said.get("detail") or said.get("msg") or said
    line = " ".join("".join(c if c.isprintable() else " " for c in str(said)).split())
    if len(line) > _SHOWN:
        line = line[: _SHOWN - 1] + "…"
    return line or "no message"
