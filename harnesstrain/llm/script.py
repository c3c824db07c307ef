"""The rules that a scripted model follows: a JSON-lines file, or a Python file.

JSON lines, one rule a line; the first rule that matches answers.  A rule:

    {"match": "ls -la", "turn": 2, "times": 1, "reply": "text", "delay": 0.5, "duration": 2.0}

match     regular expression searched in the text of the last message; absent: any
turn      number of assistant messages so far; absent: any
times     how often the rule may answer; absent: always (a rule with `times` remembers, so the model is not a function)
reply     text, or {"content", "reasoning", "tool_calls": [{"name", "arguments"}], "finish_reason"}
error     instead of a reply: context_overflow, rate_limited, transport, bad_request or refused
message   what the error says
delay     seconds before it answers
duration  seconds it says it took; absent: the delay

A line {"settings": {…}} sets the fields of `Settings`.  Blank lines and lines that start with # are skipped.

A Python file defines `reply(request: LlmRequest)`, which returns what `reply` above may be, or a Rule; and may define
`settings = {…}`.  What it raises, and a reply that is none, is a ConfigError that names the file: the rules are broken,
and nothing is measured with them.
"""

from __future__ import annotations

import json
import re
import runpy
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import BadRequest, ConfigError, LlmFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import LlmRequest

HINT = "docs/guides/rules-file.md describes the rules file"
QUOTED = 60
"""Characters of a wrong reply that are shown."""


class ScriptedCall(Record):
    """A tool call in a scripted reply."""

    name: str
    arguments: str | dict[str, Any] = "{}"
    id: str | None = None


class ScriptedReply(Record):
    """What a rule answers."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    """None: tool_calls or stop."""


class Rule(Record):
    """One rule.  Fields: see the module's text."""

    match: str | None = None
    turn: int | None = None
    times: int | None = Field(default=None, ge=1)
    reply: str | ScriptedReply | None = None
    error: Literal["context_overflow", "rate_limited", "transport", "bad_request", "refused"] | None = None
    message: str = "scripted"
    delay: float = Field(default=0.0, ge=0)
    duration: float | None = Field(default=None, ge=0)

    @field_validator("match")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return pattern

    @model_validator(mode="after")
    def _says_one_thing(self) -> Rule:
        if (self.reply is None) == (self.error is None):
            raise ValueError("a rule needs either a reply or an error")
        return self


class Settings(Record):
    """What a scripted model claims to be, and how well it behaves."""

    name: str = "scripted"
    context_length: int = Field(default=32_768, ge=1)
    """Tokens (a token is four characters here)."""
    max_running: int = Field(default=8, ge=1)
    deterministic: bool = True
    latency: float = Field(default=0.0, ge=0)
    """Seconds added to every reply."""
    unstable_above: int | None = Field(default=None, ge=0)
    """Replies change when more than this many requests run at once."""
    unstable: Literal["text", "logprobs"] = "text"
    """What changes then."""


class Script:
    """Rules and settings, and the digest that identifies them."""

    def __init__(
        self,
        rules: Iterable[Rule] | Callable[[LlmRequest], Any],
        settings: Settings | None = None,
        *,
        identity: str | None = None,
        path: Path | None = None,
    ) -> None:
        """`identity`: 64 hex; needed for a function, which has no digest of its own.  `path`: the file it is from."""
        self.settings = settings or Settings()
        self._function = rules if callable(rules) else None
        self.rules: tuple[Rule, ...] = () if callable(rules) else tuple(rules)
        self._patterns = [re.compile(rule.match) if rule.match is not None else None for rule in self.rules]
        self._used = [0] * len(self.rules)
        self._file = str(path or "the script")
        self.identity = identity or digest([rule.model_dump(mode="json") for rule in self.rules])

    def choose(self, request: LlmRequest) -> Rule:
        """The rule that answers `request`.  Raises BadRequest when none does.  Not thread-safe.

        Raises ConfigError where a function fails, or returns what is no reply.
        """
        if self._function is not None:
            return self._asked(self._function, request)
        last = _text(request.messages[-1]) if request.messages else ""
        turn = sum(1 for message in request.messages if message.get("role") == "assistant")
        for index, (rule, pattern) in enumerate(zip(self.rules, self._patterns, strict=True)):
            if rule.turn is not None and rule.turn != turn:
                continue
            if pattern is not None and not pattern.search(last):
                continue
            if rule.times is not None:
                if self._used[index] >= rule.times:
                    continue
                self._used[index] += 1
            return rule
        raise BadRequest(f"no rule of the script matches turn {turn}", hint="add a rule without `match` and `turn`")

    def _asked(self, function: Callable[[LlmRequest], Any], request: LlmRequest) -> Rule:
        try:
            value = function(request)
        except LlmFailure:  # a model's failure, played on purpose
            raise
        except (Exception, SystemExit) as error:
            raise _broken(self._file, error) from error
        if isinstance(value, Rule):
            return value
        try:
            return Rule(reply=ScriptedReply.model_validate(value) if isinstance(value, Mapping) else value)
        except ValidationError as error:
            said = repr(value)
            said = said if len(said) <= QUOTED else f"{said[:QUOTED]}…"
            raise ConfigError(f"{self._file}: reply() returned {said}: {_first(error)}", hint=HINT) from None


def load_script(path: Path) -> Script:
    """Read a rules file: Python when it ends in .py, JSON lines otherwise.  Raises ConfigError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the script '{path}' cannot be read: {error.strerror}", hint=HINT) from None
    return _python(path, data) if path.suffix == ".py" else _json_lines(path, data)


def _json_lines(path: Path, data: bytes) -> Script:
    rules: list[Rule] = []
    settings = Settings()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"the script '{path}' is not UTF-8", hint=HINT) from None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            entry = json.loads(line)
            if isinstance(entry, dict) and set(entry) == {"settings"}:
                settings = Settings.model_validate(entry["settings"])
            else:
                rules.append(Rule.model_validate(entry))
        except ValidationError as error:
            raise ConfigError(f"{path}:{number}: {_first(error)}", hint=HINT) from None
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: not JSON ({error})", hint=HINT) from None
    if not rules:
        raise ConfigError(f"the script '{path}' holds no rule", hint=HINT)
    return Script(rules, settings, identity=digest_bytes(data))


def _python(path: Path, data: bytes) -> Script:
    try:
        names = runpy.run_path(str(path))
        settings = Settings.model_validate(names.get("settings", {}))
    except ValidationError as error:
        raise ConfigError(f"{path}: settings: {_first(error)}", hint=HINT) from None
    except (Exception, SystemExit) as error:
        raise _broken(str(path), error) from error
    function = names.get("reply")
    if not callable(function):
        raise ConfigError(f"{path} defines no function `reply`", hint=HINT)
    return Script(function, settings, identity=digest_bytes(data), path=path)


def _broken(file: str, error: BaseException) -> ConfigError:
    """What a rules file raised, with the line of the file where it did."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    if not lines and isinstance(error, SyntaxError) and error.filename == file and error.lineno:
        lines = [error.lineno]
    text = str(error.msg if isinstance(error, SyntaxError) else error).strip()
    said = ": ".join([type(error).__name__, *text.splitlines()[:1]])
    return ConfigError(f"{file}:{lines[-1]}: {said}" if lines else f"{file}: {said}", hint=HINT)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
    return ""


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
