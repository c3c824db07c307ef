"""A model that follows a script.  It needs no weights; tests, benchmarks and demonstrations run on it.

Its replies are a function of the request (rules with `times` apart), its token counts are exact for its own tokens
(four characters each), and it can be told to misbehave: to be slow, to fail, and to answer differently when more than
a given number of requests run at once, as batched inference does.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import BadRequest, ContextOverflow, LlmFailure, RateLimited, Refused, TransportFailure
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply, Sampling, ToolCall, Usage
from harnesstrain.llm.script import Rule, Script, ScriptedReply, Settings, load_script
from harnesstrain.llm.wire import estimate_tokens

CHARACTERS = 4
"""Characters of a token."""

_ERRORS: dict[str, type[LlmFailure]] = {
    "context_overflow": ContextOverflow,
    "rate_limited": RateLimited,
    "transport": TransportFailure,
    "bad_request": BadRequest,
    "refused": Refused,
}


class ScriptedModel:
    """A Model over a Script.  Thread-safe."""

    def __init__(
        self, script: Script | Path | Iterable[Rule | Mapping[str, Any]], settings: Settings | None = None
    ) -> None:
        """`script`: a Script, a rules file, or rules (records or plain maps).  `settings` replaces the script's own."""
        if isinstance(script, Path):
            script = load_script(script)
        elif not isinstance(script, Script):
            script = Script([rule if isinstance(rule, Rule) else Rule.model_validate(rule) for rule in script])
        self._script = script
        self._settings = settings or script.settings
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._running = 0
        self._peak = 0
        self._calls = 0
        self._crowds: list[int] = []
        self._endpoint = Endpoint(
            engine="scripted",
            model=self._settings.name,
            context_length=self._settings.context_length,
            deterministic=self._settings.deterministic,
            max_running=self._settings.max_running,
            identity={"script": script.identity, "version": 1},
        )

    @property
    def calls(self) -> int:
        """Requests answered or failed so far."""
        with self._lock:
            return self._calls

    @property
    def peak(self) -> int:
        """Most requests that ran at once."""
        with self._lock:
            return self._peak

    def crowds(self) -> tuple[int, ...]:
        """Requests so far that began as the n-th at once, for n = 1, 2, …"""
        with self._lock:
            return tuple(self._crowds)

    def endpoint(self) -> Endpoint:
        """Engine `scripted`, identified by the digest of its rules."""
        return self._endpoint

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """A token per four characters, and four per message."""
        return estimate_tokens(messages)

    def close(self) -> None:
        """Wake whatever is waiting; later requests fail."""
        self._closed.set()

    def complete(self, request: LlmRequest) -> Reply:
        """What the script says."""
        return self.complete_until(request, self._closed)

    def complete_until(self, request: LlmRequest, stop: StopSignal) -> Reply:
        """What the script says; gives up a delay soon after `stop` is set."""
        if self._closed.is_set():
            raise TransportFailure("the scripted model is closed")
        with self._lock:
            rule = self._script.choose(request)
            self._calls += 1
            self._running += 1
            self._peak = max(self._peak, self._running)
            crowd = self._running
            if crowd > len(self._crowds):
                self._crowds.append(0)
            self._crowds[crowd - 1] += 1
        try:
            delay = rule.delay + self._settings.latency
            if delay and self._wait(delay, stop):
                return Reply(finish_reason="abort")
            with self._lock:
                crowd = max(crowd, self._running)
        finally:
            with self._lock:
                self._running -= 1
        if rule.error is not None:
            raise _ERRORS[rule.error](rule.message)
        return self._reply(rule, request, crowd, delay)

    def _wait(self, delay: float, stop: StopSignal) -> bool:
        """Wait; True when it was cut short."""
        if stop is self._closed:
            return self._closed.wait(delay)
        left = delay
        while left > 0:
            if self._closed.wait(min(left, 0.05)) or stop.is_set():
                return True
            left -= 0.05
        return False

    def _reply(self, rule: Rule, request: LlmRequest, crowd: int, delay: float) -> Reply:
        said = rule.reply if isinstance(rule.reply, ScriptedReply) else ScriptedReply(content=rule.reply or "")
        prompt = self.count_tokens(request.messages)
        if request.tools:
            prompt += (len(json.dumps(list(request.tools))) + CHARACTERS - 1) // CHARACTERS
        room = self._settings.context_length - prompt
        if room <= 0:
            raise ContextOverflow(
                f"the prompt has {prompt} tokens, the context {self._settings.context_length}", prompt=prompt
            )
        content, finish = _cut(said.content, request.sampling, room)
        calls = () if finish == "length" else _calls(said)
        finish = finish or said.finish_reason or ("tool_calls" if calls else "stop")
        limit = self._settings.unstable_above
        shaken = crowd if limit is not None and crowd > limit else 0
        if shaken and self._settings.unstable == "text":
            content = _shake(content, shaken)
        text = content + said.reasoning + "".join(call.name + call.arguments for call in calls)
        pieces = [text[start : start + CHARACTERS] for start in range(0, len(text), CHARACTERS)]
        noise = shaken * 2.0**-40
        return Reply(
            content=content,
            reasoning=said.reasoning,
            tool_calls=calls,
            finish_reason=finish,
            usage=Usage(prompt=prompt, completion=len(pieces), reasoning=-(-len(said.reasoning) // CHARACTERS)),
            token_ids=tuple(zlib.crc32(piece.encode("utf-8", "replace")) % 50_000 for piece in pieces),
            logprobs=tuple(-(zlib.crc32(piece.encode("utf-8", "replace")) % 1000) / 1024 - noise for piece in pieces),
            duration=delay if rule.duration is None else rule.duration,
        )


def _cut(content: str, sampling: Sampling, room: int) -> tuple[str, str | None]:
    """Content after stop strings and the token limit, and the finish reason that follows (None: not cut)."""
    ends = [at for stop in sampling.stop if stop and (at := content.find(stop)) >= 0]
    if ends:
        content = content[: min(ends)]
    limit = min(sampling.max_tokens, room) * CHARACTERS
    if len(content) > limit:
        return content[:limit], "length"
    return content, "stop" if ends else None


def _calls(said: ScriptedReply) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            id=call.id or f"call_{index}",
            name=call.name,
            arguments=call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
        )
        for index, call in enumerate(said.tool_calls)
    )


def _shake(content: str, crowd: int) -> str:
    """Another text of the same length: what a near-tie decided the other way looks like."""
    at = crowd % len(content) if content else 0
    return content[:at] + ("~" if content[at : at + 1] != "~" else "-") + content[at + 1 :]
