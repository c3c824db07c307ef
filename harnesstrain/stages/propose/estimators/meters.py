"""What an agent says about itself while it works: tokens, cost, replies, its last words, how it ended.

A meter reads JSON lines of the agent's own formats, from its stdout and from the log it keeps of its session.  They
are claims of the agent; they bound what it spends, and decide nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harnesstrain.core.records.llm import Usage

LINE = 8 * 1024 * 1024
"""Bytes of the longest line that is read; longer ones are kept in the transcript only."""
REFUSED = (401, 403)
"""Answers of a model server that no retry changes."""
SLICE = 4 * 1024 * 1024
"""Bytes of session logs read at a time."""


class Meter:
    """Counts nothing: for programs whose output has no known form."""

    def __init__(self) -> None:
        self.cost_usd: float | None = None
        """Dollars, once the agent said so."""
        self.last = ""
        """Its last message."""
        self.trouble: str | None = None
        """What the agent says went wrong, until it goes on."""
        self.refused: str | None = None
        """Why its model server will never answer it, if it says so."""

    @property
    def usage(self) -> Usage:
        """Tokens of all calls so far."""
        return Usage()

    @property
    def turns(self) -> int:
        """Replies of its model so far."""
        return 0

    def feed(self, line: bytes, source: str = "") -> None:
        """Read one line.  `source`: empty for stdout, else the session log's name.  What it does not know it skips."""
        if len(line) > LINE or not line.lstrip().startswith(b"{"):
            return
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.read(json.loads(line), source)

    def read(self, event: dict[str, Any], source: str) -> None:
        """Read one event."""


class ClaudeMeter(Meter):
    """Claude Code: `assistant` and `result` lines; the session log repeats the former with final token counts."""

    def __init__(self) -> None:
        super().__init__()
        self._replies: dict[str, Usage] = {}
        self._total = Usage()

    @property
    def usage(self) -> Usage:
        """The sum over its replies, or its own total when that is more."""
        counted = sum(self._replies.values(), Usage())
        return max(counted, self._total, key=lambda usage: usage.total)

    @property
    def turns(self) -> int:
        """Replies of its model."""
        return len(self._replies)

    def read(self, event: dict[str, Any], source: str) -> None:
        """`assistant`: one block of a reply; `api_retry`: a failed call; `result`: the end."""
        if event["type"] == "assistant":
            message = event["message"]
            texts = [part["text"] for part in message["content"] if part.get("type") == "text"]
            self.last = texts[-1] if texts else self.last
            if message.get("model") == "<synthetic>":
                return
            self.trouble = None
            usage = _claude(message["usage"])
            known = self._replies.get(message["id"], Usage())
            self._replies[message["id"]] = max(known, usage, key=lambda one: one.total)
        elif event.get("subtype") == "api_retry":
            self.trouble = f"{event['error']} ({event['error_status']})"
            self.refused = self.trouble if event["error_status"] in REFUSED else None
        elif event["type"] == "result" and not source:
            models = event.get("modelUsage") or {}
            by_model = [_claude_model(one) for one in models.values()] or [_claude(event["usage"])]
            self._total = sum(by_model, Usage())
            self.cost_usd = float(event["total_cost_usd"])
            self.last = str(event.get("result") or self.last)
            if event.get("is_error"):
                said = event.get("result") or "; ".join(map(str, event.get("errors") or ())) or event.get("subtype")
                self.trouble = str(said)


class CodexMeter(Meter):
    """Codex: `item.completed` and `turn.*` lines; tokens of each reply stand in the session log only."""

    def __init__(self) -> None:
        super().__init__()
        self._threads: dict[str, Usage] = {}
        self._replies = 0
        self._total = Usage()

    @property
    def usage(self) -> Usage:
        """The sum over its threads, or its own total when that is more."""
        counted = sum(self._threads.values(), Usage())
        return max(counted, self._total, key=lambda usage: usage.total)

    @property
    def turns(self) -> int:
        """Replies of its model."""
        return self._replies

    def read(self, event: dict[str, Any], source: str) -> None:
        """A line of stdout, or of a thread's session log."""
        kind = event["type"]
        if source:
            payload = event["payload"]
            if kind == "event_msg" and payload["type"] == "token_count":
                usage = _codex(payload["info"]["total_token_usage"])
                self._replies += usage != self._threads.get(source)
                self._threads[source] = usage
        elif kind == "turn.completed":
            self._total = self._total + _codex(event["usage"])
            self.trouble = None
        elif kind == "turn.failed":
            self.trouble = str(event["error"]["message"])
        elif kind == "error":
            self.trouble = str(event["message"])
        elif kind == "item.completed" and event["item"]["type"] == "agent_message":
            self.last = str(event["item"]["text"])


class SessionLogs:
    """Follows the JSON lines that an agent appends to files below a directory it owns.  Nothing there is trusted."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[Path, int] = {}

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """Whole lines that were added since the last call, each with its file's name."""
        for folder, _, names in os.walk(self._root):
            for name in sorted(names):
                if name.endswith(".jsonl"):
                    path = Path(folder, name)
                    for line in self._added(path):
                        yield str(path.relative_to(self._root)), line

    def _added(self, path: Path) -> list[bytes]:
        start = self._read.get(path, 0)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return []
        with os.fdopen(fd, "rb") as file:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size <= start:
                return []
            file.seek(start)
            data = file.read(SLICE)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == SLICE:
            end = SLICE  # a line too long to be read
        self._read[path] = start + end
        return data[:end].splitlines()


def _claude(said: dict[str, Any]) -> Usage:
    cached = int(said.get("cache_read_input_tokens") or 0)
    fresh = int(said.get("input_tokens") or 0) + int(said.get("cache_creation_input_tokens") or 0)
    return Usage(prompt=fresh + cached, cached=cached, completion=int(said.get("output_tokens") or 0))


def _claude_model(said: dict[str, Any]) -> Usage:
    cached = int(said.get("cacheReadInputTokens") or 0)
    fresh = int(said.get("inputTokens") or 0) + int(said.get("cacheCreationInputTokens") or 0)
    return Usage(prompt=fresh + cached, cached=cached, completion=int(said.get("outputTokens") or 0))


def _codex(said: dict[str, Any]) -> Usage:
    return Usage(
        prompt=int(said.get("input_tokens") or 0),
        cached=int(said.get("cached_input_tokens") or 0),
        completion=int(said.get("output_tokens") or 0),
        reasoning=int(said.get("reasoning_output_tokens") or 0),
    )
