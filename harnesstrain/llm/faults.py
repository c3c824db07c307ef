"""HTTP statuses and error bodies to and from the error tree."""

from __future__ import annotations

import json
import re
from typing import Any

from harnesstrain.core.errors import BadRequest, ContextOverflow, HtError, LlmFailure, RateLimited, TransportFailure

RETRIED = frozenset({408, 425, 429, *range(500, 600)} - {501, 505})
"""Statuses that may pass by themselves."""

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

_NO_ROOM = "the request does not fit the model's context"

_WORDING = " (maximum context length exceeded)"
"""Clients that do not look at the code recognise an overflow by these words."""

_SHOWN = 200
"""Characters of a server's own words that a message quotes."""


def failure(status: int, text: str) -> LlmFailure:
    """The typed failure for an error answer.  `text`: the body with every secret already taken out of it."""
    if status in (401, 403):
        # Servers like to quote the key they refuse, so nothing of their answer is repeated.
        return BadRequest(
            f"the endpoint refused the API key ({status})",
            hint="check the environment variable that holds the key",
            status=status,
        )
    said = _said(text)
    if status in (400, 413, 422) and _OVERFLOW.search(text):
        words = said.removesuffix(_WORDING)
        return ContextOverflow(words if words.startswith(_NO_ROOM) else f"{_NO_ROOM}: {words}", status=status)
    if status == 429:
        return RateLimited("the endpoint is rate limited (429)", hint="lower --jobs, or wait", status=status)
    if status in RETRIED:
        return TransportFailure(
            f"the endpoint failed ({status}): {said}", hint="look at the model server's log", status=status
        )
    if status == 404:
        hint = "check the URL (it ends in /v1) and the model name"
        return BadRequest(f"the endpoint knows no such model or route (404): {said}", hint=hint, status=status)
    return BadRequest(f"the endpoint refused the request ({status}): {said}", status=status)


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
    if isinstance(error, RateLimited):
        return 429, error_body(error.message, kind="rate_limit_error", code=error.kind)
    status = 502 if isinstance(error, TransportFailure) else 500
    return status, error_body(error.message, kind="server_error", code=error.kind)


def _page(text: str) -> str:
    """The title of a page that is meant for a browser; anything else as it is."""
    if not re.match(r"\s*<(?:!doctype\s+html|html|head)\b", text, re.IGNORECASE):
        return text
    title = re.search(r"<title[^>]*>([^<]*)<", text, re.IGNORECASE)
    return f"a web page, '{title.group(1).strip()}'" if title else "a web page"


def _said(text: str) -> str:
    """The server's own words on one line, short, without control characters."""
    said: Any = _page(text)
    try:
        body = json.loads(text)
        inner = body.get("error", body) if isinstance(body, dict) else body
        if isinstance(inner, dict):
            said = inner.get("message") or inner.get("detail") or inner.get("msg") or inner
        else:
            said = inner
    except ValueError:
        pass
    line = " ".join("".join(c if c.isprintable() else " " for c in str(said)).split())
    if len(line) > _SHOWN:
        line = line[: _SHOWN - 1] + "…"
    return line or "no message"
