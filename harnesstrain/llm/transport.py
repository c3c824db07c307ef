"""HTTP to one endpoint: time limits, retries, bounded bodies, and no secret in anything that is raised."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_before_delay, wait_exponential, wait_random

from harnesstrain.core.errors import BadRequest, LlmFailure, TransportFailure, UsageError
from harnesstrain.llm.faults import RETRIED, failure
from harnesstrain.llm.waiting import Waiting


@dataclass(frozen=True)
class Patience:
    """How long to wait for what.  Seconds."""

    connect: float = 10.0
    """For a connection."""
    attempt: float = 600.0
    """For one attempt, from the first byte sent to the last byte received."""
    deadline: float = 900.0
    """For a call with all its attempts and pauses."""
    absent: float = 60.0
    """For a server that refuses connections to come (back) up."""
    pause: float = 0.5
    """Before the second attempt; doubles from there, with jitter."""
    longest_pause: float = 30.0
    """Unless the server asks for more with Retry-After."""
    garbled: int = 3
    """Attempts in all when the answer is not what an endpoint answers."""


@dataclass(frozen=True)
class Payload:
    """A JSON answer."""

    body: Any
    duration: float
    """Seconds of the attempt that succeeded."""


class _Again(Exception):
    """An attempt failed in a way that may pass."""

    def __init__(
        self,
        failure: LlmFailure,
        *,
        after: float | None = None,
        absent: bool = False,
        garbled: bool = False,
        hurried: bool = False,
    ) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.after = after
        self.absent = absent
        self.garbled = garbled
        self.hurried = hurried


class Transport:
    """A connection pool to one base URL.  Thread-safe."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        patience: Patience,
        max_bytes: int,
        proxy: str | None = None,
        verify: bool | str = True,
        waiting: Waiting | None = None,
    ) -> None:
        self.url = checked_url(base_url)
        self._waiting = waiting or Waiting(None)
        self._key = checked_key(api_key)
        self._patience = patience
        self._max_bytes = max_bytes
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        # Loading the certificate authorities takes tens of milliseconds, and plain HTTP needs none.
        context: Any = verify if self.url.startswith("https:") else False
        if isinstance(context, str):
            import ssl

            context = ssl.create_default_context(cafile=context)
        self._client = httpx.Client(
            headers=headers,
            proxy=proxy,
            verify=context,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(patience.attempt, connect=patience.connect),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    def __repr__(self) -> str:
        return f"Transport({self.url!r})"

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def get(self, path: str, *, patience: Patience | None = None) -> Payload:
        """GET a JSON document.  `path` starts with `/` and follows the base URL, or is a whole URL."""
        return self._call("GET", path, None, None, patience or self._patience)

    def answers(self, path: str) -> bool:
        """Whether GET `path` (or a whole URL) is answered with 200, whatever the body.  Tried once."""
        try:
            return self._client.get(path if "://" in path else self.url + path).status_code == 200
        except httpx.HTTPError:
            return False

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        patience: Patience | None = None,
        check: Callable[[Payload], None] | None = None,
    ) -> Payload:
        """POST a JSON document.  `check` raises TransportFailure on an answer that should be tried again."""
        try:
            content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (ValueError, TypeError, RecursionError) as error:
            raise BadRequest(f"the request cannot be written as JSON ({error})") from None
        return self._call("POST", path, content, check, patience or self._patience)

    def _call(
        self,
        method: str,
        path: str,
        content: bytes | None,
        check: Callable[[Payload], None] | None,
        patience: Patience,
    ) -> Payload:
        began = time.monotonic()
        before: LlmFailure | None = None
        try:
            for attempt in Retrying(
                retry=retry_if_exception_type(_Again),
                stop=lambda state: _enough(state, patience),
                wait=lambda state: _pause(state, patience),
                reraise=True,
            ):
                with attempt:
                    left = patience.deadline - (time.monotonic() - began)
                    try:
                        payload = self._attempt(
                            method, path, content, max(0.001, min(patience.attempt, left)), patience
                        )
                    except _Again as again:
                        # An attempt that the deadline cut short says less than the one before it.
                        if again.hurried and before is not None:
                            raise _Again(before) from None
                        before = again.failure
                        self._waiting.failed(again.failure, began)
                        raise
                    if check is not None:
                        try:
                            check(payload)
                        except TransportFailure as error:
                            raise _Again(error, garbled=True) from None
                    return payload
        except _Again as again:
            raise again.failure from None
        raise AssertionError("unreachable")

    def _attempt(self, method: str, path: str, content: bytes | None, limit: float, patience: Patience) -> Payload:
        began = time.monotonic()
        url = path if "://" in path else self.url + path
        headers = {"Content-Type": "application/json"} if content is not None else {}
        timeout = httpx.Timeout(limit, connect=min(limit, patience.connect))
        try:
            with self._client.stream(method, url, content=content, headers=headers, timeout=timeout) as response:
                data = self._read(response, began + limit)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _Again(self._trouble("cannot be reached", error), absent=True) from None
        except httpx.TimeoutException as error:
            problem = self._trouble(f"gave no answer within {limit:.3g} s", error)
            raise _Again(problem, hurried=limit < patience.attempt) from None
        except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
            raise _Again(self._trouble("broke off the exchange", error)) from None
        except RuntimeError as error:
            raise TransportFailure(f"the connection to the endpoint was closed: {self._clean(str(error))}") from None
        return self._judge(response, data, time.monotonic() - began)

    def _read(self, response: httpx.Response, until: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > self._max_bytes:
                raise TransportFailure(f"the endpoint's answer is longer than {self._max_bytes} bytes")
            if time.monotonic() > until:
                raise httpx.ReadTimeout("the answer trickles")
        return b"".join(parts)

    def _judge(self, response: httpx.Response, data: bytes, duration: float) -> Payload:
        status = response.status_code
        if status >= 400:
            problem = failure(status, self._clean(data.decode("utf-8", "replace")))
            if status in RETRIED:
                raise _Again(problem, after=_retry_after(response))
            raise problem
        if status != 200:
            raise failure(status, "a redirect, or an answer without a body")
        try:
            return Payload(json.loads(data), duration)
        except (ValueError, RecursionError):
            hint = "check that the URL ends in /v1"
            problem = TransportFailure("the endpoint's answer is not JSON", hint=hint, garbled=True)
            raise _Again(problem, garbled=True) from None

    def _trouble(self, what: str, error: Exception) -> TransportFailure:
        said = self._clean(str(error)) or type(error).__name__
        return TransportFailure(f"the endpoint at {self.url} {what} ({said})", hint="is the model server running?")

    def _clean(self, text: str) -> str:
        """`text` without the API key."""
        return text.replace(self._key, "[key]") if self._key else text


def checked_url(url: str) -> str:
    """The base URL without a final slash.  Raises UsageError where it is none, or carries credentials."""
    hint = "give an OpenAI-compatible base URL, for example http://127.0.0.1:8000/v1"
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise UsageError("the endpoint's URL cannot be read", hint=hint) from None
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise UsageError("the endpoint's URL must not carry credentials, a query or a fragment", hint=hint)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError("the endpoint's URL must start with http:// or https://", hint=hint)
    return str(parsed).rstrip("/")


def checked_key(key: str | None) -> str | None:
    """The API key, or None when it is empty.  Raises UsageError when it cannot be sent in a header."""
    if not key or not key.strip():
        return None
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            "the API key holds characters that cannot be sent", hint="check the environment variable that holds it"
        )
    return key


def _enough(state: RetryCallState, patience: Patience) -> bool:
    """Whether to stop trying."""
    again = state.outcome.exception() if state.outcome is not None else None
    if isinstance(again, _Again):
        if again.garbled and state.attempt_number >= patience.garbled:
            return True
        if again.absent and stop_before_delay(min(patience.absent, patience.deadline))(state):
            return True
    return stop_before_delay(patience.deadline)(state)


def _pause(state: RetryCallState, patience: Patience) -> float:
    """Seconds before the next attempt."""
    again = state.outcome.exception() if state.outcome is not None else None
    doubling = wait_exponential(multiplier=patience.pause, max=patience.longest_pause)(state)
    backoff = min(patience.longest_pause, doubling + wait_random(0, patience.pause)(state))
    asked = again.after if isinstance(again, _Again) else None
    return max(backoff, asked) if asked is not None else backoff


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds that the server asks us to wait; None when it asks for nothing we can read."""
    value = response.headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
