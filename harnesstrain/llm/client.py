"""Any OpenAI-compatible endpoint as a Model: vLLM, sglang, llama-server, a hosted API, or our own front."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harnesstrain.core.errors import BadRequest, LlmFailure, Refused, TransportFailure
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply
from harnesstrain.llm.discovery import Discovery, discover
from harnesstrain.llm.inspection import Inspection
from harnesstrain.llm.tokenize import Counter
from harnesstrain.llm.transport import Patience, Payload, Transport
from harnesstrain.llm.waiting import Waiting
from harnesstrain.llm.wire import reply_from, request_body


class OpenAIModel:
    """A client of one endpoint and one of its models.  Thread-safe; connections are kept and reused.

    It reads no environment variable, no netrc and no proxy setting: what it needs is passed in.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 600.0,
        deadline: float = 900.0,
        patience: Patience | None = None,
        context_length: int | None = None,
        max_running: int | None = None,
        body: Mapping[str, Any] | None = None,
        token_field: str = "max_tokens",
        max_bytes: int = 64 * 1024 * 1024,
        proxy: str | None = None,
        verify: bool | str = True,
        waiting: Waiting | None = None,
    ) -> None:
        """`base_url` usually ends in /v1.  `model`: its name there; None: the only one that is served.

        `timeout`: seconds for one attempt; `deadline`: seconds for all of them.  `patience` sets the rest too, and
        replaces both.  `context_length`: tokens; needed where the server does not say it, a limit where it says more;
        our own front decides by itself.  `body`: fields added to
        every request (None removes one); they become part of the identity.  `token_field`: the name under which the
        server wants the token limit.  `proxy`: URL of an HTTP proxy.
        `verify`: False, or a file of certificate authorities.  `waiting` says that attempts fail and are made again.

        Raises UsageError when the URL or the key cannot be used.  Nothing is sent yet.
        """
        self._patience = patience or Patience(attempt=timeout, deadline=deadline)
        self._transport = Transport(
            base_url,
            api_key=api_key,
            patience=self._patience,
            max_bytes=max_bytes,
            proxy=proxy,
            verify=verify,
            waiting=waiting,
        )
        self._wanted = model
        self._context_length = context_length
        self._max_running = max_running
        self._body = dict(body or {})
        self._token_field = token_field
        self._lock = threading.Lock()
        self._found: Discovery | None = None
        self._inspection: Inspection | None = None
        self._counter = Counter(self._transport)

    def __repr__(self) -> str:
        return f"OpenAIModel({self._transport.url!r}, model={self._wanted!r})"

    @property
    def url(self) -> str:
        """The base URL."""
        return self._transport.url

    def endpoint(self) -> Endpoint:
        """What the server says it is, from GET /models.  Asked once.

        Our own front publishes its whole record, which is recovered exactly.  Any other server is an `external`
        endpoint, not deterministic until certified, identified by the facts it reports.

        Raises UsageError (which model? which context length?) or LlmFailure.
        """
        return self._discovered().endpoint

    def complete(self, request: LlmRequest) -> Reply:
        """One reply.  Transport errors, 429 and 5xx are tried again inside the deadline; other 4xx are not.

        Raises ContextOverflow, RateLimited, TransportFailure, BadRequest, Refused; LlmFailure when the server has
        come to serve something else than it did at first.
        """
        return self._exchange(request, {})

    def inspect(self, request: LlmRequest, *, cold: bool = False, stop: StopSignal | None = None) -> Reply:
        """Like `complete`, with token ids and logprobs as far as the server gives them; it cannot be stopped.

        `cold` works with our front, llama-server, vLLM and sglang.
        """
        found = self._discovered()
        with self._lock:
            if self._inspection is None:
                owner = str(found.endpoint.identity.get("owned_by", ""))
                self._inspection = Inspection(self._transport, owner, found.own)
        ways = self._inspection.ways(cold=cold)
        for rank, fields in ways:
            try:
                reply = self._exchange(request, fields)
            except (BadRequest, Refused):
                if rank == ways[-1][0]:
                    raise
                continue
            self._inspection.settle(rank)
            return reply
        raise AssertionError("unreachable")

    def crowds(self) -> tuple[int, ...] | None:
        """Requests so far that began as the n-th at once, where our own front counts them."""
        if not self._discovered().own:
            return None
        said = self._transport.get(f"{self._transport.url.removesuffix('/v1')}/health").body
        crowds = said.get("crowds") if isinstance(said, dict) else None
        if not isinstance(crowds, list) or not all(isinstance(count, int) for count in crowds):
            return None
        return tuple(crowds)

    def _exchange(self, request: LlmRequest, more: Mapping[str, Any]) -> Reply:
        """One request with `more` body fields, answered."""
        found = self._discovered()
        body = {**request_body(request, found.endpoint.model), **more}
        body[self._token_field] = body.pop("max_tokens")
        for name, value in self._body.items():
            if value is None:
                body.pop(name, None)
            else:
                body[name] = value
        replies: list[Reply] = []
        payload = self._transport.post(
            "/chat/completions", body, check=lambda given: replies.append(reply_from(given.body, given.duration))
        )
        if found.own:
            self._same_server(payload, found.endpoint)
        return replies[-1]

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Prompt tokens as the server counts them; an estimate (four characters a token) where it offers no way."""
        return self._counter.count(self._discovered().endpoint.model, messages)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _discovered(self) -> Discovery:
        with self._lock:
            if self._found is None:
                first = self._patience
                brief = replace(first, attempt=min(first.attempt, 60.0), absent=min(first.absent, 5.0))
                self._found = discover(
                    self._transport,
                    patience=brief,
                    model=self._wanted,
                    context_length=self._context_length,
                    max_running=self._max_running,
                    body=self._body,
                )
            return self._found

    @staticmethod
    def _same_server(payload: Payload, endpoint: Endpoint) -> None:
        now = payload.body.get("system_fingerprint") if isinstance(payload.body, dict) else None
        if now is None:
            raise TransportFailure("the model server's answer carries no fingerprint")
        if now != endpoint.fingerprint:
            raise LlmFailure(
                "the model server was replaced by one that serves something else",
                hint="start again, so that everything is measured with one model",
            )
