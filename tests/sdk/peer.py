"""The other end of the SDK's wire, for tests: reads requests from a pipe and answers them from a script."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from harnesstrain.sdk import Episode

TASK = {
    "instruction": "Do it.",
    "workdir": "/app",
    "model": "m",
    "context_length": 4096,
    "budgets": {"steps": 8, "max_tokens": 160},
}
USAGE = {"prompt": 3, "cached": 1, "completion": 2, "reasoning": 0}


class Refusal(Exception):
    """Raised by an answering function to answer with an error of `kind`."""

    def __init__(self, kind: str, **data: Any) -> None:
        super().__init__(kind)
        self.data = {"kind": kind, **data}


def completion(content: str = "ok", handle: str = "h1", **more: Any) -> dict[str, Any]:
    """A plain result of `llm.complete`."""
    base = {"content": content, "reasoning": "", "tool_calls": [], "finish_reason": "stop", "usage": USAGE}
    return {**base, "handle": handle, **more}


class Peer:
    """An in-process driver.  `answer(method, params)` gives a result or raises Refusal."""

    def __init__(self, answer: Callable[[str, dict[str, Any]], Any], task: dict[str, Any] | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.lines: list[bytes] = []
        self._answer = answer
        self._task = task or TASK
        from_harness, harness_out = os.pipe()
        harness_in, to_harness = os.pipe()
        self.requests = os.fdopen(from_harness, "rb")
        self.answers = os.fdopen(to_harness, "wb")
        self.source = os.fdopen(harness_in, "rb")
        self.sink = os.fdopen(harness_out, "wb")
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> Peer:
        try:
            self.episode = Episode(self.source, self.sink)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        self.sink.close()
        self._thread.join()
        self.requests.close()
        for thread in threading.enumerate():
            if thread.name == "ht-sdk-reader":
                thread.join()
        self.source.close()

    def hang_up(self) -> None:
        """Close the driver's end, as a driver does whose episode is over."""
        self.answers.close()

    def _serve(self) -> None:
        for line in self.requests:
            self.lines.append(line)
            request = json.loads(line)
            method, params = request["method"], request["params"]
            reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
            if method == "initialize":
                reply["result"] = {"protocol": 1, "task": self._task}
            else:
                self.calls.append((method, params))
                try:
                    reply["result"] = self._answer(method, params)
                except Refusal as refusal:
                    reply["error"] = {"code": -32000, "message": "refused", "data": refusal.data}
            if not self.answers.closed:
                self.answers.write(json.dumps(reply).encode() + b"\n")
                self.answers.flush()
        if not self.answers.closed:
            self.answers.close()
