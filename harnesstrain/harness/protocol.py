"""The harness protocol as the driver sees it: typed calls in, result objects out.  The SDK documents the wire.

A message that is no request at all is the harness's crash (PolicyFailure).  A request that cannot be served (unknown
method, bad params) is a CallRefused: it is answered with a typed error and the harness goes on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError, model_validator

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.harness import Changes
from harnesstrain.core.records.llm import Reply
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.harness.wire import MAX_DEPTH, CallRefused, ErrorKind, Id, Message, malformed, pack, quote, unpack

VERSION = 1
"""Of the protocol."""

MAX_RAN, MAX_NAME = 10_000, 1000
"""Names in one `ran`, and characters of each."""

_SURROGATES = re.compile("[\ud800-\udfff]")

LAST_WORDS = "ran"
"""The method of a message without id: what ran after the last request."""

_MEMBERS = frozenset({"jsonrpc", "id", "method", "params"})

WireBytes = Annotated[bytes, PlainValidator(unpack), PlainSerializer(pack)]


def _no_nul(value: str) -> str:
    if "\0" in value:
        msg = "must not contain NUL"
        raise ValueError(msg)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        msg = "must be a string"
        raise ValueError(msg)
    return _no_nul(value)


def _name(value: Any) -> str:
    text = _text(value)
    if not text:
        msg = "must not be empty"
        raise ValueError(msg)
    return text


Text = Annotated[str, PlainValidator(_text)]
Name = Annotated[str, PlainValidator(_name)]


class Params(BaseModel):
    """Base of the params of a method: frozen, strict, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Sdk(Params):
    """Who speaks on the harness's side."""

    name: str = Field(max_length=200)
    version: str = Field(max_length=200)


class Initialize(Params):
    """`initialize`: the first call."""

    protocol: int
    sdk: Sdk
    capabilities: tuple[str, ...] = Field(default=(), strict=False)
    """`trace`: it can tell which changed lines ran."""


class Messages(Params):
    """A conversation: the messages after `prefix`, which is a handle of an earlier call, or all of them."""

    prefix: str | None = None
    append: tuple[dict[str, Any], ...] = Field(strict=False)

    @model_validator(mode="before")
    @classmethod
    def _whole_list(cls, value: Any) -> Any:
        if isinstance(value, list):
            return {"append": value}
        if isinstance(value, Mapping) and value.get("prefix") is None:
            msg = 'messages are a list, or {"prefix": HANDLE, "append": [..]}'
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _roles(self) -> Messages:
        for index, message in enumerate(self.append):
            if not isinstance(message.get("role"), str) or not message["role"]:
                msg = f"message {index} has no role"
                raise ValueError(msg)
        if self.prefix is None and not self.append:
            msg = "a conversation has at least one message"
            raise ValueError(msg)
        return self


class Complete(Params):
    """`llm.complete`."""

    messages: Messages
    tools: tuple[dict[str, Any], ...] = Field(default=(), strict=False)
    tool_choice: str | dict[str, Any] | None = None
    sampling: dict[str, Any] = Field(default_factory=dict)


class CountTokens(Params):
    """`llm.count_tokens`: of a conversation or of a text."""

    messages: Messages | None = None
    text: str | None = None

    @model_validator(mode="after")
    def _one(self) -> CountTokens:
        if (self.messages is None) == (self.text is None):
            msg = "give either messages or text"
            raise ValueError(msg)
        return self


class Run(Params):
    """`env.run`."""

    command: Text
    cwd: Name | None = None
    timeout: float | None = Field(default=None, gt=0, le=86_400, allow_inf_nan=False)
    """Seconds."""
    stdin: WireBytes | None = None


class Read(Params):
    """`env.read`."""

    path: Name


class Write(Params):
    """`env.write`."""

    path: Name
    content: WireBytes
    mode: int = Field(default=0o644, ge=0, le=0o7777)


class Note(Params):
    """`note`: whatever the harness wants in the trace."""

    data: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _any(cls, value: Any) -> Any:
        return {"data": value}


class Submit(Params):
    """`submit`: the environment as it is now is the answer."""

    message: str | None = None


AnyParams = Initialize | Complete | CountTokens | Run | Read | Write | Note | Submit

METHODS: Mapping[str, type[AnyParams]] = {
    "initialize": Initialize,
    "llm.complete": Complete,
    "llm.count_tokens": CountTokens,
    "env.run": Run,
    "env.read": Read,
    "env.write": Write,
    "note": Note,
    "submit": Submit,
}
"""Every method, with its params."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a harness, validated."""

    id: Id
    method: str
    params: AnyParams


def read_call(message: Mapping[str, Any]) -> Call:
    """The request in a decoded message.

    Raises PolicyFailure when it is no JSON-RPC 2.0 request, CallRefused when it is one that cannot be served.
    """
    request = message.get("id")
    if message.get("jsonrpc") != "2.0":
        malformed(message, 'it lacks "jsonrpc": "2.0"')
    if isinstance(request, bool) or not isinstance(request, int | str):
        malformed(message, "its id is not an integer or a string")
    method = message.get("method")
    if not isinstance(method, str):
        malformed(message, "it names no method")
    if not message.keys() <= _MEMBERS:
        unknown = message.keys() - _MEMBERS
        malformed(message, f"it has unknown members: {', '.join(sorted(unknown))}")
    params = METHODS.get(method)
    if params is None:
        raise CallRefused(request, ErrorKind.METHOD_NOT_FOUND, f"no method {quote(method.encode('utf-8', 'replace'))}")
    given = message.get("params", {})
    if not isinstance(given, dict):
        raise CallRefused(request, ErrorKind.BAD_PARAMS, f"{method}: params must be an object")
    try:
        if not (isinstance(message, Message) and message.plain):
            _check_text(given)
        return Call(id=request, method=method, params=params.model_validate(given))
    except ValidationError as error:
        raise CallRefused(request, ErrorKind.BAD_PARAMS, f"{method}: {_first(error)}") from error
    except ValueError as error:
        raise CallRefused(request, ErrorKind.BAD_PARAMS, f"{method}: {error}") from error


def take_ran(message: dict[str, Any]) -> tuple[str, ...]:
    """The member `ran` of a message, taken out of it: the changed code that ran since the message before.

    Raises PolicyFailure when it is no list of names.
    """
    given = message.pop("ran", [])
    if not isinstance(given, list) or len(given) > MAX_RAN:
        malformed(message, f"its `ran` is no list of at most {MAX_RAN} names")
    for name in given:
        if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
            malformed(message, f"a name in its `ran` is no printable text of at most {MAX_NAME} characters")
    return tuple(given)


def says_nothing_else(message: Mapping[str, Any]) -> bool:
    """Whether a message without its `ran` is empty: the last one of a harness that ends without a request."""
    return "id" not in message and message.get("method") == LAST_WORDS


class BudgetView(Record):
    """What a harness is told about its budgets.  None: no limit told."""

    steps: int | None = None
    """Model calls."""
    tokens: int | None = None
    """Prompt and completion tokens of the whole episode."""
    seconds: float | None = None
    """Recorded time."""
    max_tokens: int | None = None
    """Completion tokens of one reply."""


class TaskView(Record):
    """What a harness may know about its task.  No task id, no verifier facts."""

    instruction: str
    workdir: str
    """Where commands start in the environment."""
    model: str
    context_length: int
    """Tokens, prompt and completion together."""
    budgets: BudgetView = Field(default_factory=BudgetView)


def initialize_result(task: TaskView, changes: Changes | None = None) -> dict[str, Any]:
    """The result of `initialize`.  `changes`: what the harness is to watch; only for one that says that it can."""
    view = task.model_dump(mode="json")
    view["budgets"] = {name: value for name, value in view["budgets"].items() if value is not None}
    result: dict[str, Any] = {"protocol": VERSION, "task": view}
    if changes is not None:
        files = {path: [[one.first, one.last, one.when] for one in lines] for path, lines in changes.files.items()}
        result["trace"] = {"files": files}
    return result


def complete_result(reply: Reply, handle: str) -> dict[str, Any]:
    """The result of `llm.complete`; `handle` stands for the messages of the request."""
    usage = reply.usage
    return {
        "content": reply.content,
        "reasoning": reply.reasoning,
        "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "usage": {
            "prompt": usage.prompt,
            "cached": usage.cached,
            "completion": usage.completion,
            "reasoning": usage.reasoning,
        },
        "handle": handle,
    }


def run_result(result: RunResult) -> dict[str, Any]:
    """The result of `env.run`."""
    return {
        "exit_code": result.exit_code,
        "stdout": pack(result.stdout),
        "stderr": pack(result.stderr),
        "timed_out": result.timed_out,
        "truncated": result.truncated,
    }


def read_result(content: bytes) -> dict[str, Any]:
    """The result of `env.read`."""
    return {"content": pack(content)}


def _check_text(value: dict[str, Any] | list[Any], depth: int = 0) -> None:
    """Raise ValueError when a string in `value` is no Unicode text, or when it is nested deeper than MAX_DEPTH."""
    if depth >= MAX_DEPTH:
        msg = f"params are nested more than {MAX_DEPTH} levels deep"
        raise ValueError(msg)
    for item in (*value, *value.values()) if isinstance(value, dict) else value:
        if isinstance(item, str):
            if not item.isascii() and _SURROGATES.search(item):
                msg = "a string holds a lone surrogate"
                raise ValueError(msg)
        elif isinstance(item, dict | list):
            _check_text(item, depth + 1)


def _first(error: ValidationError) -> str:
    """The first thing wrong, in words."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"] if not (isinstance(part, str) and "[" in part))
    said = first["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said
