"""A model within its certificate: at most so many requests at once, and its sentinels before the first of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply
from harnesstrain.llm.base import Model


class VettedModel:
    """Wraps a model.  Requests beyond the limit wait; how long does not enter a reply's duration."""

    def __init__(
        self,
        model: Model,
        endpoint: Endpoint,
        *,
        limit: int | None = None,
        check: Callable[[Model], None] | None = None,
    ) -> None:
        """`endpoint`: what the model is, as its certificate has it.  `limit`: requests at once; None: any number.

        `check` is called with the wrapped model before the first request, and before the next one after each `arm`.
        What it raises, the request raises; the check is then made again.
        """
        self._model = model
        self._endpoint = endpoint
        self._slots = threading.BoundedSemaphore(limit) if limit is not None else nullcontext()
        self._check = check
        self._checking = threading.Lock()
        self._armed = check is not None

    def endpoint(self) -> Endpoint:
        """What it is, as its certificate has it."""
        return self._endpoint

    def arm(self) -> None:
        """Have the next request checked first.  A run that asks nothing is never checked."""
        self._armed = self._check is not None

    def complete(self, request: LlmRequest) -> Reply:
        """One reply, once there is room for the request."""
        self._pass()
        with self._slots:
            return self._model.complete(request)

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Prompt tokens, as the wrapped model counts them."""
        return self._model.count_tokens(messages)

    def close(self) -> None:
        """Close the wrapped model."""
        self._model.close()

    def _pass(self) -> None:
        if self._check is None or not self._armed:
            return
        with self._checking:
            if self._armed:
                self._check(self._model)
                self._armed = False
