"""What an endpoint is, from what it says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from harnesstrain.core.errors import LlmFailure, Refused, UsageError
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.llm.transport import Patience, Transport
from harnesstrain.llm.wire import OWN_FIELD

_FACTS = ("id", "owned_by", "root", "parent", "max_model_len", "system_fingerprint", "quantization", "meta")
"""Fields of a model's entry that describe it.  `created` and `permission` hold clock times and random ids."""

_LENGTHS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")
"""Names under which servers publish the context length."""

_DEFAULT_RUNNING = 8

PROBE = 5.0
"""Seconds for the question whether there is a route for completions at all."""


@dataclass(frozen=True)
class Discovery:
    """An endpoint and how it was found."""

    endpoint: Endpoint
    own: bool
    """Whether our own front published it."""


def discover(
    transport: Transport,
    *,
    patience: Patience,
    model: str | None,
    context_length: int | None,
    max_running: int | None,
    body: Mapping[str, Any],
) -> Discovery:
    """Ask GET /models.  Raises UsageError (which model? which context length?) or LlmFailure."""
    entry = _entry(_listed(transport, patience, known=model if context_length else None), model)
    published = entry.get(OWN_FIELD)
    if published is not None:
        return Discovery(_published(published, max_running, body), own=True)
    identity: dict[str, Any] = {name: _portable(name, entry[name]) for name in _FACTS if entry.get(name) is not None}
    facts = _server_facts(transport, patience, entry)
    identity.update(facts.identity)
    lengths = [value for value in (context_length, _length(entry), identity.get("n_ctx")) if isinstance(value, int)]
    if not lengths or min(lengths) <= 0:
        raise UsageError("the endpoint does not say its context length", hint="give it (context_length, in tokens)")
    if body:
        identity["body"] = dict(body)
    endpoint = Endpoint(
        engine="external",
        model=str(entry["id"]),
        context_length=min(lengths),
        deterministic=False,
        max_running=min(width for width in (max_running or _DEFAULT_RUNNING, facts.width) if width is not None),
        identity=identity,
    )
    return Discovery(endpoint, own=False)


def _listed(transport: Transport, patience: Patience, *, known: str | None) -> list[Mapping[str, Any]] | None:
    """Entries of GET /models; None where the server has no such route and we can do without: the model is known."""
    try:
        listing = transport.get("/models", patience=patience).body
    except Refused as error:
        if known and error.extra.get("status") in (404, 405):
            _require_chat(transport, patience, known)
            return None
        raise
    data = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) and "id" in item for item in data):
        raise LlmFailure("the endpoint's list of models cannot be read", hint="check that the URL ends in /v1")
    return data


def _require_chat(transport: Transport, patience: Patience, model: str) -> None:
    """Raise LlmFailure where there is no route for completions, or no key for it.  No message, no cost."""
    try:
        transport.post(
            "/chat/completions",
            {"model": model, "messages": [], "max_tokens": 1},
            patience=replace(patience, deadline=min(patience.deadline, PROBE), garbled=1),
        )
    except Refused as error:
        if error.extra.get("status") in (401, 402, 403):
            raise
        if error.extra.get("status") in (404, 405, 501):
            message = f"{transport.url} is no OpenAI-compatible endpoint: {error.message}"
            raise LlmFailure(message, hint="check the URL (it ends in /v1) and the model name") from None
    except LlmFailure:
        return  # trouble of the moment, or an answer to an odd question: the first real request tells


def _entry(listed: list[Mapping[str, Any]] | None, model: str | None) -> Mapping[str, Any]:
    if listed is None:
        return {"id": model}
    names = [str(item["id"]) for item in listed]
    if model is None:
        if len(listed) == 1:
            return listed[0]
        if not listed:
            raise LlmFailure("the endpoint serves no model", hint="look at the model server's log")
        raise UsageError(f"the endpoint serves {len(listed)} models: {_some(names)}", hint="name one of them")
    for item in listed:
        if item["id"] == model:
            return item
    raise UsageError(f"the endpoint does not serve '{model}'", hint=f"it serves {_some(names) or 'nothing'}")


def _published(published: Any, max_running: int | None, body: Mapping[str, Any]) -> Endpoint:
    try:
        endpoint = Endpoint.model_validate(published)
    except ValidationError:
        raise LlmFailure(
            "the model server publishes a record that cannot be read here",
            hint="run the same version of harnesstrain on both sides",
        ) from None
    if body:
        raise UsageError("extra request fields are for foreign endpoints", hint="leave them out")
    if max_running is not None:
        endpoint = endpoint.model_copy(update={"max_running": min(max_running, endpoint.max_running)})
    return endpoint


def _length(entry: Mapping[str, Any]) -> int | None:
    for name in _LENGTHS:
        value = entry.get(name)
        if isinstance(value, int) and value > 0:
            return value
    meta = entry.get("meta")
    value = meta.get("n_ctx") if isinstance(meta, Mapping) else None
    return value if isinstance(value, int) and value > 0 else None


@dataclass(frozen=True)
class _Facts:
    """What a server tells beside /models."""

    identity: Mapping[str, Any] = field(default_factory=dict)
    width: int | None = None
    """Requests it works on at once, at most."""


def _server_facts(transport: Transport, patience: Patience, entry: Mapping[str, Any]) -> _Facts:
    """What the known servers tell beside /models: version, context size, template, how many requests at once."""
    root = transport.url.removesuffix("/v1")
    owner = entry.get("owned_by")
    try:
        if owner == "vllm":
            said = transport.get(f"{root}/version", patience=patience).body
            return _Facts({"server_version": _field(said, "version")})
        if owner == "sglang":
            info = transport.get(f"{root}/server_info", patience=patience).body
            names = ("version", "dtype", "quantization", "attention_backend", "enable_deterministic_inference")
            found = {name: _field(info, name) for name in names if _field(info, name) is not None}
            return _Facts(found, _sglang_width(info))
        if owner == "llamacpp":
            props = transport.get(f"{root}/props", patience=patience).body
            settings = _field(props, "default_generation_settings")
            facts = {"n_ctx": _field(settings, "n_ctx"), "build_info": _field(props, "build_info")}
            facts["chat_template"] = _field(props, "chat_template")
            slots = _field(props, "total_slots")
            known = {name: value for name, value in facts.items() if value is not None}
            return _Facts(known, slots if isinstance(slots, int) and slots > 0 else None)
    except LlmFailure:
        # These routes are extras that a server may have switched off.
        return _Facts()
    return _Facts()


def _sglang_width(info: Any) -> int | None:
    """Requests that SGLang really runs at once.  The number it was started with may be more than its memory allows."""
    states = _field(info, "internal_states")
    widths = [
        width
        for state in (states if isinstance(states, list) else [])
        if isinstance(width := _field(state, "effective_max_running_requests_per_dp"), int) and width > 0
    ]
    return min(widths, default=None)


def _field(body: Any, name: str) -> Any:
    return body.get(name) if isinstance(body, Mapping) else None


def _portable(name: str, value: Any) -> Any:
    """A fact without the directory it was loaded from."""
    if name in ("id", "root", "parent") and isinstance(value, str) and value.startswith("/"):
        return value.rstrip("/").rsplit("/", 1)[-1]
    return value


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} …" if len(names) > 5 else shown
