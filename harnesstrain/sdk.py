"""The harness side of the protocol, in one file that needs nothing but Python (3.8 or newer).

`ht init` copies this file into a harness repo as `ht_sdk.py`.  It is frozen there: no candidate may change it.

    from ht_sdk import Episode, serve

    def solve(ep: Episode) -> None:
        messages = [{"role": "user", "content": ep.task.instruction}]
        reply = ep.complete(messages)          # the driver calls the model
        result = ep.run(reply.content)         # the driver acts on the environment
        ep.submit()

    serve(solve)

The wire
--------
JSON-RPC 2.0, one message per line, UTF-8.  The harness writes requests to its stdout and reads answers from its
stdin; stderr is its log.  Every request has an integer `id` and waits for its answer; answers may come in any order.
The driver never sends a request.  End of file on stdin means that the episode is over.

BYTES is `{"text": str}` when the bytes are valid UTF-8, else `{"base64": str}`.  Optional params are left out.

    method            params                                            result
    initialize        protocol: 1, sdk: {name, version},                protocol: 1, task: {instruction, workdir, model,
                      capabilities: [str]                               context_length, budgets: {steps?, tokens?,
                                                                        seconds?, max_tokens?}}
    llm.complete      messages: MESSAGES, tools?: [..],                 content, reasoning, tool_calls: [{id, name,
                      tool_choice?, sampling?: {..}                     arguments}], finish_reason, usage: {prompt,
                                                                        cached, completion, reasoning}, handle: str
    llm.count_tokens  messages: MESSAGES | text: str                    tokens: int
    env.run           command: str, cwd?: str, timeout?: number,        exit_code: int, stdout: BYTES, stderr: BYTES,
                      stdin?: BYTES                                     timed_out: bool, truncated: bool
    env.read          path: str                                         content: BYTES
    env.write         path: str, content: BYTES, mode: int              null
    note              any JSON object                                   null
    submit            message?: str                                     null

MESSAGES is the whole list, or `{"prefix": HANDLE, "append": [..]}`.  HANDLE is the `handle` of an earlier
`llm.complete` of this episode and stands for exactly the messages that request carried (not its reply).  Both forms
are the same request.  `arguments` of a tool call is the raw text the model wrote.  `mode` is a file mode (0o644 = 420).

An error answer is `{"code": int, "message": str, "data": {"kind": str, ..}}`.  Kinds and what they become here:

    code     kind               exception
    -32601   method_not_found   ProtocolError
    -32602   bad_params         ProtocolError      also a sampling override that the regime does not allow
    -32001   context_overflow   ContextOverflow    the request does not fit the model's context
    -32002   rate_limited       RateLimited
    -32003   transport          TransportError     the model cannot be reached
    -32004   file_fault         FileFault          data: errno ("ENOENT", ..), path
    -32005   episode_over       EpisodeOver        data: reason; BudgetExceeded when it is step_limit, token_limit,
                                                   time_limit

How a harness ends: `submit`, then exit 0.  Exit 0 without `submit` means that it gave up.  Any other exit is a crash.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import traceback
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Mapping, NoReturn, Sequence  # noqa: UP035 (Python 3.8)

NAME = "ht_sdk"
VERSION = "1.0"
PROTOCOL = 1

BUDGET_REASONS = ("step_limit", "token_limit", "time_limit")


class HarnessError(Exception):
    """An error answer of the driver.  `kind` is its name on the wire, `data` whatever came along."""

    def __init__(self, message: str, kind: str = "", data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.data: dict[str, Any] = dict(data or {})


class ContextOverflow(HarnessError):
    """The messages do not fit the model's context.  Drop or shorten some and try again."""


class RateLimited(HarnessError):
    """The model endpoint kept refusing for load."""


class TransportError(HarnessError):
    """The model endpoint cannot be reached."""


class FileFault(HarnessError):
    """`read` or `write` failed in the environment.  `errno` is the error's name: ENOENT, EISDIR, EACCES .."""

    @property
    def errno(self) -> str:
        """Symbolic errno, empty when unknown."""
        return str(self.data.get("errno", ""))


class ProtocolError(HarnessError):
    """The driver does not know this call or its arguments, or the two do not speak the same protocol."""


class EpisodeOver(SystemExit):
    """No further call is possible: submitted, out of budget, or closed by the driver.  `reason` says which.

    A SystemExit: left alone it ends the process quietly, and `except Exception` does not swallow it.
    """

    def __init__(self, reason: str = "closed") -> None:
        super().__init__(0)
        self.reason = reason


class BudgetExceeded(EpisodeOver):
    """The episode is over because a budget is spent: `reason` is step_limit, token_limit or time_limit."""


@dataclass(frozen=True)
class Budgets:
    """What an episode may use.  None: no limit told."""

    steps: int | None = None
    """Model calls."""
    tokens: int | None = None
    """Prompt and completion tokens of the whole episode."""
    seconds: float | None = None
    """Recorded time."""
    max_tokens: int | None = None
    """Completion tokens of one reply."""


@dataclass(frozen=True)
class Task:
    """What a harness may know about its task."""

    instruction: str
    workdir: str
    """Where commands start in the environment."""
    model: str
    context_length: int
    """Tokens, prompt and completion together."""
    budgets: Budgets = field(default_factory=Budgets)


@dataclass(frozen=True)
class ToolCall:
    """A call the model asked for."""

    id: str
    name: str
    arguments: str
    """Raw JSON text as the model wrote it; it may be invalid."""


@dataclass(frozen=True)
class Usage:
    """Token counts of one call."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Reply:
    """A model's reply."""

    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    """`stop`, `length`, `tool_calls` or whatever the server says."""
    usage: Usage = field(default_factory=Usage)

    def message(self) -> dict[str, Any]:
        """The reply as a chat message, to append to the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        return message


@dataclass(frozen=True)
class RunResult:
    """What a command did."""

    exit_code: int
    """As the shell reports it: 128+n for signal n, 124 for a time-out."""
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    timed_out: bool = False
    truncated: bool = False
    """The environment kept head and tail of the output and dropped the middle."""

    @property
    def stdout(self) -> str:
        """Standard output as text; invalid UTF-8 is replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text; invalid UTF-8 is replaced."""
        return self.stderr_bytes.decode("utf-8", "replace")


class Episode:
    """One task, driven from here.  Its methods may be called from several threads at once."""

    task: Task

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        """Speak over two binary streams and introduce ourselves.  Raises ProtocolError when the driver refuses."""
        self._wire = _Wire(source, sink)
        self._conversations = _Conversations()
        self._submitted = False
        hello = {"protocol": PROTOCOL, "sdk": {"name": NAME, "version": VERSION}, "capabilities": []}
        answer = self._wire.call("initialize", hello)
        if answer.get("protocol") != PROTOCOL:
            raise ProtocolError("the driver speaks protocol {!r}, not {}".format(answer.get("protocol"), PROTOCOL))
        self.task = _task(answer["task"])

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        **sampling: Any,
    ) -> Reply:
        """Ask the model.  `messages` and `tools` are in OpenAI chat form; `sampling` overrides what the regime allows.

        Raises ContextOverflow, RateLimited, TransportError, ProtocolError (override refused), BudgetExceeded.
        """
        whole = [_plain(message) for message in messages]
        params: dict[str, Any] = {"messages": self._conversations.shorten(whole)}
        if tools:
            params["tools"] = [_plain(tool) for tool in tools]
        if tool_choice is not None:
            params["tool_choice"] = _plain(tool_choice)
        if sampling:
            params["sampling"] = _plain(sampling)
        answer = self._call("llm.complete", params)
        if answer.get("handle"):
            self._conversations.keep(answer["handle"], whole)
        usage = answer.get("usage") or {}
        return Reply(
            content=answer.get("content") or "",
            reasoning=answer.get("reasoning") or "",
            tool_calls=tuple(
                ToolCall(str(call.get("id", "")), call["name"], call["arguments"])
                for call in answer.get("tool_calls") or ()
            ),
            finish_reason=answer.get("finish_reason") or "stop",
            usage=Usage(*(int(usage.get(name) or 0) for name in ("prompt", "cached", "completion", "reasoning"))),
        )

    def count_tokens(self, messages_or_text: str | Sequence[Mapping[str, Any]]) -> int:
        """How many tokens a text or a conversation has for this model."""
        if isinstance(messages_or_text, str):
            answer = self._call("llm.count_tokens", {"text": messages_or_text})
        else:
            whole = [_plain(message) for message in messages_or_text]
            answer = self._call("llm.count_tokens", {"messages": self._conversations.shorten(whole)})
        return int(answer["tokens"])

    def run(
        self,
        command: str,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
    ) -> RunResult:
        """Run a shell command in the environment.  `timeout` is in seconds; None: the environment's own limit."""
        params: dict[str, Any] = {"command": command}
        if cwd is not None:
            params["cwd"] = cwd
        if timeout is not None:
            params["timeout"] = timeout
        if stdin is not None:
            params["stdin"] = _pack(stdin)
        answer = self._call("env.run", params)
        return RunResult(
            exit_code=int(answer["exit_code"]),
            stdout_bytes=_unpack(answer["stdout"]),
            stderr_bytes=_unpack(answer["stderr"]),
            timed_out=bool(answer.get("timed_out")),
            truncated=bool(answer.get("truncated")),
        )

    def read(self, path: str) -> bytes:
        """The bytes of a file in the environment.  A relative path starts at the workdir.  Raises FileFault."""
        return _unpack(self._call("env.read", {"path": path})["content"])

    def read_text(self, path: str) -> str:
        """The text of a file in the environment; invalid UTF-8 is replaced.  Raises FileFault."""
        return self.read(path).decode("utf-8", "replace")

    def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Write a whole file in the environment.  A relative path starts at the workdir.  Raises FileFault."""
        self._call("env.write", {"path": path, "content": _pack(data), "mode": mode})

    def note(self, **data: Any) -> None:
        """Leave a remark in the trace.  `note(valid=True)` counts a reply that could be acted on without repair."""
        self._call("note", _plain(data))

    def submit(self, message: str | None = None) -> None:
        """Hand in the environment as it is now.  The episode is over: any later call raises EpisodeOver."""
        self._call("submit", {} if message is None else {"message": message})
        self._submitted = True

    def _call(self, method: str, params: dict[str, Any]) -> Any:
        if self._submitted:
            raise EpisodeOver("submitted")
        return self._wire.call(method, params)


def serve(solve: Callable[[Episode], None]) -> NoReturn:
    """Run `solve` on the episode at stdin and stdout, then exit: 0, or 1 with a traceback on stderr when it raised.

    From here on stray output goes to stderr: file descriptor 1 is the log, and 0 is empty.
    """
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        solve(Episode(source, sink))
    except EpisodeOver:
        code = 0
    except Exception:
        traceback.print_exc()
        code = 1
    else:
        code = 0
    sys.exit(code)


class _Wire:
    """Requests out, answers in: a lock around the writes, one thread that reads, answers matched by id."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: dict[int, _Slot] = {}
        self._closed: BaseException | None = None
        threading.Thread(target=self._listen, name="ht-sdk-reader", daemon=True).start()

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        slot = _Slot()
        with self._lock:
            if self._closed is not None:
                raise self._closed
            number = self._last + 1
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            line = json.dumps(request, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
            self._last = number
            self._waiting[number] = slot
            try:
                self._sink.write(line)
                self._sink.flush()
            except (OSError, ValueError):
                self._waiting.pop(number)
                raise EpisodeOver() from None
        slot.ready.wait()
        if slot.failure is not None:
            raise slot.failure
        return slot.result

    def _listen(self) -> None:
        failure: BaseException = EpisodeOver()
        try:
            for line in self._source:
                self._answer(line)
        except (OSError, ValueError, KeyError, TypeError) as error:
            failure = ProtocolError(f"cannot understand the driver: {error!r}")
        with self._lock:
            self._closed = failure
            waiting, self._waiting = self._waiting, {}
        for slot in waiting.values():
            slot.failure = failure
            slot.ready.set()

    def _answer(self, line: bytes) -> None:
        message = json.loads(line.decode("utf-8"))
        with self._lock:
            slot = self._waiting.pop(message["id"])
        if "error" in message:
            slot.failure = _failure(message["error"])
        else:
            slot.result = message["result"]
        slot.ready.set()


class _Slot:
    """Where one call waits for its answer."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.result: Any = None
        self.failure: BaseException | None = None


class _Conversations:
    """The message lists that the driver knows, by handle, so that a longer one is sent as what it adds."""

    KEPT = 64
    """Lists remembered; the oldest are forgotten (and then sent whole)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, list[Any]] = {}

    def shorten(self, messages: list[Any]) -> Any:
        best = ""
        best_length = 0
        with self._lock:
            for handle, known in self._known.items():
                size = len(known)
                if best_length < size <= len(messages) and all(map(_same, known, messages)):
                    best, best_length = handle, size
        return {"prefix": best, "append": messages[best_length:]} if best else messages

    def keep(self, handle: str, messages: list[Any]) -> None:
        with self._lock:
            self._known.pop(handle, None)
            self._known[handle] = messages
            while len(self._known) > self.KEPT:
                del self._known[next(iter(self._known))]


def _plain(value: Any) -> Any:
    """A copy made of dicts and lists that later changes by the caller do not reach.  Texts are shared."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _same(one: Any, other: Any) -> bool:
    """Equality as JSON sees it: True, 1 and 1.0 are three different things."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(item, other[key]) for key, item in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _pack(data: str | bytes) -> dict[str, str]:
    if isinstance(data, str):
        return {"text": data}
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _unpack(packed: Mapping[str, str]) -> bytes:
    if "text" in packed:
        return packed["text"].encode("utf-8")
    return base64.b64decode(packed["base64"])


def _task(view: Mapping[str, Any]) -> Task:
    limits = view.get("budgets") or {}
    return Task(
        instruction=view["instruction"],
        workdir=view["workdir"],
        model=view["model"],
        context_length=int(view["context_length"]),
        budgets=Budgets(*(limits.get(name) for name in ("steps", "tokens", "seconds", "max_tokens"))),
    )


def _failure(error: Mapping[str, Any]) -> BaseException:
    data = error.get("data") or {}
    kind = str(data.get("kind", ""))
    if kind == "episode_over":
        reason = str(data.get("reason", "closed"))
        return BudgetExceeded(reason) if reason in BUDGET_REASONS else EpisodeOver(reason)
    known = {
        "context_overflow": ContextOverflow,
        "rate_limited": RateLimited,
        "transport": TransportError,
        "file_fault": FileFault,
    }
    return known.get(kind, ProtocolError)(str(error.get("message", "")), kind, data)
