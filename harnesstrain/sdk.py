"""The harness side of the protocol, in one file that needs nothing but Python (3.8 or newer).

`ht init` copies this file into a harness repo as `ht_sdk.py`.  It is frozen there: no candidate may change it.

    from ht_sdk import Episode, serve

    def solve(ep: Episode) -> None:
        messages = [{"role": "user", "content": ep.task.instruction}]
        reply = ep.complete(messages)          # the driver calls the model
        result = ep.run(reply.content)         # the driver acts on the environment
        ep.submit()

    serve(solve)

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
    -32602   bad_params         ProtocolError      also for a sampling override that the regime does not allow
    -32001   context_overflow   ContextOverflow    the request does not fit the model's context
    -32002   rate_limited       RateLimited
    -32003   transport          TransportError     the model cannot be reached
    -32004   file_fault         FileFault          data: errno ("ENOENT", ..), path
    -32005   episode_over       EpisodeOver        data: reason

How a harness ends: `submit`, then exit 0.  Exit 0 without `submit` means that it gave up.  Any other exit is a crash.

The capability `trace`: `initialize` may be answered with `trace: {files: {PATH: [[first, last, when], ..]}}`, the lines
of the harness's own files that are new in it.  A harness that can then adds `ran: ["PATH:FIRST", ..]` to its requests,
beside `params`: those that ran since the request before.  `when` is `run`; `import`: also when the module was imported
already; `call`: when the function that starts at `first` is entered.  No lines: told as `PATH` when the file is opened,
or the directory listed (`a/b/`).  What ran since the last request goes into a message without id, of the method `ran`.
"""

from __future__ import annotations

import atexit
import binascii
import collections
import contextlib
import functools
import json
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import BufferedReader
    from typing import (  # noqa: UP035 (Python 3.8)
        Any,
        BinaryIO,
        Callable,
        Mapping,
        NamedTuple,
        NoReturn,
        Sequence,
    )
else:

    class _Named(type):
        """Makes what `typing.NamedTuple` makes.  Importing typing takes longer than half of everything here."""

        def __new__(cls, name, bases, body):
            """The named tuple that the body of a class describes."""
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.pop("__annotations__")
            defaults = [body.pop(field) for field in fields if field in body]
            made = collections.namedtuple(name, fields, defaults=defaults, module=body.pop("__module__"))
            for key, value in body.items():
                setattr(made, key, value)
            made.__annotations__ = fields
            return made

    class NamedTuple(metaclass=_Named):
        """Base of the records below."""


NAME = "ht_sdk"
VERSION = "1.0"
PROTOCOL = 1


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
    """`read` or `write` failed in the environment.  `data["errno"]` names the error: ENOENT, EISDIR, EACCES .."""


class ProtocolError(HarnessError):
    """The driver does not know this call or its arguments, or the two do not speak the same protocol."""


class EpisodeOver(SystemExit):
    """No further call is possible; `reason` says why: submitted, closed, step_limit, token_limit, time_limit.

    A SystemExit: left alone it ends the process quietly, and `except Exception` does not swallow it.
    """

    def __init__(self, reason: str = "closed") -> None:
        super().__init__(0)
        self.reason = reason


class Budgets(NamedTuple):
    """What an episode may use.  None: no limit told.

    `steps`: model calls.  `tokens`: prompt and completion, of the whole episode.  `seconds`: recorded time.
    `max_tokens`: completion tokens of one reply.
    """

    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    max_tokens: int | None = None


class Task(NamedTuple):
    """What a harness may know about its task.  `context_length`: tokens, prompt and completion together."""

    instruction: str
    workdir: str
    model: str
    context_length: int
    budgets: Budgets = Budgets()


class ToolCall(NamedTuple):
    """A call the model asked for.  `arguments` is raw JSON text as the model wrote it; it may be invalid."""

    id: str
    name: str
    arguments: str


class Usage(NamedTuple):
    """Token counts of one call."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


class Reply(NamedTuple):
    """A model's reply.  `finish_reason` is `stop`, `length`, `tool_calls` or whatever the server says."""

    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = Usage()

    def message(self) -> dict[str, Any]:
        """The reply as a chat message, to append to the conversation."""
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.tool_calls
        ]
        return {"role": "assistant", "content": self.content, **({"tool_calls": calls} if calls else {})}


class RunResult(NamedTuple):
    """What a command did.  `exit_code` is the shell's: 128+n for signal n, 124 for a time-out."""

    exit_code: int
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    timed_out: bool = False
    truncated: bool = False
    """Head and tail of the output were kept, the middle dropped."""

    @property
    def stdout(self) -> str:
        """Standard output as text; invalid UTF-8 is replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text; invalid UTF-8 is replaced."""
        return self.stderr_bytes.decode("utf-8", "replace")


def _unwatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, without the cost of watching which lines run: none of them is the harness's."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        watching = sys.gettrace()
        if watching is None:
            return function(*args, **kwargs)
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(watching)

    return call


class Episode:
    """One task, driven from here.  Its methods may be called from several threads at once."""

    def __init__(self, source: BufferedReader, sink: BinaryIO) -> None:
        """Speak over two binary streams and introduce ourselves.  Raises ProtocolError when the driver refuses."""
        self._wire = _Wire(source, sink)
        self._conversations = _Conversations()
        hello = {"protocol": PROTOCOL, "sdk": {"name": NAME, "version": VERSION}, "capabilities": ["trace"]}
        answer = self._call("initialize", **hello)
        if answer.get("protocol") != PROTOCOL:
            raise ProtocolError(f"the driver speaks protocol {answer.get('protocol')!r}, not {PROTOCOL}")
        task = answer["task"]
        limits = task.get("budgets") or {}
        budgets = Budgets(*(limits.get(name) for name in ("steps", "tokens", "seconds", "max_tokens")))
        self.task = Task(task["instruction"], task["workdir"], task["model"], int(task["context_length"]), budgets)
        if "trace" in answer:
            atexit.register(self._wire.leave)
            _WITNESS.start(answer["trace"]["files"])

    @_unwatched
    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        **sampling: Any,
    ) -> Reply:
        """Ask the model.  `messages` and `tools` are in OpenAI chat form; `sampling` overrides what the regime allows.

        Raises ContextOverflow, RateLimited, TransportError, ProtocolError (override refused).
        """
        short, marks = self._conversations.shorten(messages)
        params = {"messages": short, "tools": tools or None, "tool_choice": tool_choice, "sampling": sampling or None}
        answer = self._call("llm.complete", **params)
        self._conversations.keep(answer["handle"], marks)
        calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in answer["tool_calls"])
        usage = Usage(*(answer["usage"][name] for name in ("prompt", "cached", "completion", "reasoning")))
        return Reply(answer["content"], answer["reasoning"], calls, answer["finish_reason"], usage)

    @_unwatched
    def count_tokens(self, messages_or_text: str | Sequence[Mapping[str, Any]]) -> int:
        """How many tokens a text or a conversation has for this model."""
        if isinstance(messages_or_text, str):
            return int(self._call("llm.count_tokens", text=messages_or_text)["tokens"])
        short, _ = self._conversations.shorten(messages_or_text)
        return int(self._call("llm.count_tokens", messages=short)["tokens"])

    def run(
        self, command: str, cwd: str | None = None, timeout: float | None = None, stdin: str | bytes | None = None
    ) -> RunResult:
        """Run a shell command in the environment.  `timeout` is in seconds; None: the environment's own limit."""
        data = None if stdin is None else _pack(stdin)
        answer = self._call("env.run", command=command, cwd=cwd, timeout=timeout, stdin=data)
        stdout, stderr = _unpack(answer["stdout"]), _unpack(answer["stderr"])
        return RunResult(answer["exit_code"], stdout, stderr, answer["timed_out"], answer["truncated"])

    def read(self, path: str) -> bytes:
        """The bytes of a file in the environment.  A relative path starts at the workdir.  Raises FileFault."""
        return _unpack(self._call("env.read", path=path)["content"])

    def read_text(self, path: str) -> str:
        """The text of a file in the environment; invalid UTF-8 is replaced.  Raises FileFault."""
        return self.read(path).decode("utf-8", "replace")

    def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        """Write a whole file in the environment.  A relative path starts at the workdir.  Raises FileFault."""
        self._call("env.write", path=path, content=_pack(data), mode=mode)

    def note(self, **data: Any) -> None:
        """Leave a remark in the trace.  `note(valid=True)` counts a reply that could be acted on without repair."""
        self._wire.call("note", data)

    def submit(self, message: str | None = None) -> None:
        """Hand in the environment as it is now.  The episode is over: any later call raises EpisodeOver."""
        self._call("submit", message=message)
        self._wire.close("submitted")

    def _call(self, method: str, **params: Any) -> Any:
        return self._wire.call(method, {name: value for name, value in params.items() if value is not None})


def serve(solve: Callable[[Episode], None]) -> NoReturn:
    """Run `solve` on the episode at stdin and stdout, then exit: 0, or 1 with a traceback on stderr when it raised.

    From here on stray output goes to stderr: file descriptor 1 is the log, and 0 is empty.  The generator of `random`
    is seeded, so that a harness draws the same numbers each time.  Time, `os.urandom` and the order of a set of objects
    without a hash of their own still vary: keep them out of what the model is asked.
    """
    _Seeding.begin()
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    try:
        solve(Episode(source, sink))
    except Exception:
        _explain()
        sys.exit(1)
    sys.exit(0)


class _Seeding:
    """Seeds the generator of `random`: now, or when the module is imported.  Most harnesses never import it."""

    @classmethod
    def begin(cls) -> None:
        """Seed."""
        if "random" in sys.modules:
            sys.modules["random"].seed(0)
        else:
            sys.meta_path.insert(0, cls())

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Where to import `name` from; None: others know.  `random` is seeded as soon as it was imported."""
        if name != "random":
            return None
        sys.meta_path.remove(self)
        spec: Any = next(filter(None, (finder.find_spec(name, path, target) for finder in sys.meta_path)), None)
        if spec is not None:
            load = spec.loader.exec_module

            def seeded(module: Any) -> None:
                load(module)
                module.seed(0)

            spec.loader.exec_module = seeded
        return spec


def _explain() -> None:
    import traceback  # only now: it takes a tenth of the start

    traceback.print_exc()


class _Wire:
    """Requests out, answers in, matched by id.  Of those who wait one reads, for all."""

    def __init__(self, source: BufferedReader, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._writing = threading.Lock()
        self._last = 0
        self._closed: str | None = None
        self._turn = threading.Condition(threading.Lock())  # of everything below
        self._waiting: set[int] = set()
        self._answers: dict[int, Any] = {}
        self._reading = False
        self._ended = False
        self._part = bytearray()  # of a line; only for who reads

    @_unwatched
    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of one request.  Raises what the answer's error stands for, or EpisodeOver."""
        with self._writing:
            if self._closed is not None:
                raise EpisodeOver(self._closed)
            number = self._last + 1
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params, **_WITNESS.news()}
            line = _ENCODE(request) + "\n"
            self._last = number
            self._waiting.add(number)
            try:
                self._sink.write(line.encode("ascii"))
                self._sink.flush()
            except OSError:
                raise EpisodeOver("closed") from None
        message = self._answer(number)
        if "error" in message:
            raise _failure(message["error"])
        return message["result"]

    def close(self, reason: str) -> None:
        """Let every later call raise EpisodeOver."""
        with self._writing:
            self._closed = self._closed or reason

    def leave(self) -> None:
        """Tell what ran since the last request."""
        with self._writing, contextlib.suppress(OSError, ValueError):
            news = _WITNESS.news() if self._closed is None else {}
            if news:
                self._sink.write(json.dumps({"jsonrpc": "2.0", "method": "ran", **news}).encode("ascii") + b"\n")
                self._sink.flush()

    def _answer(self, number: int) -> Any:
        with self._turn:
            while self._reading and number not in self._answers:
                self._turn.wait()
            if number in self._answers:
                return self._answers.pop(number)
            self._reading = True
        try:
            while number not in self._answers:
                message = None if self._ended else self._receive()
                if message is None:
                    self._ended = True
                    self.close("closed")
                    raise EpisodeOver("closed")
                with self._turn:
                    self._answers[message["id"]] = message
                    self._turn.notify_all()
            return self._answers.pop(number)
        finally:
            with self._turn:
                self._reading = False
                self._turn.notify_all()

    def _receive(self) -> Any:
        """The next answer; None at the end.  An exception out of a signal handler loses nothing that was read."""
        seen = 0
        while True:
            end = self._part.find(b"\n", seen)
            if end >= 0:
                break
            seen = len(self._part)
            chunk = self._source.read1(1 << 18)
            if not chunk:
                return None
            self._part += chunk
        line = bytes(self._part[:end])
        del self._part[: end + 1]
        try:
            message = json.loads(line.decode("utf-8"))
            self._waiting.remove(message["id"])
        except (ValueError, KeyError, TypeError):
            _explain()
            return None
        return message


class _Conversations:
    """The message lists that the driver knows, by handle, so that a longer one is sent as what it adds."""

    KEPT = 64  # lists; the oldest are forgotten and then sent whole

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, list[Any]] = {}
        self._longest = 0

    def shorten(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Any, list[Any]]:
        """`messages` in the form that says the least, and what to remember of them."""
        best = ""
        marks: list[Any] = []
        with self._lock:
            for handle, known in reversed(self._known.items()):
                if len(marks) < len(known) <= len(messages) and _all_same(known, messages[: len(known)]):
                    best, marks = handle, known
                    if len(marks) == self._longest:  # mostly the newest one, and no other is of use
                        break
        added = messages[len(marks) :]
        return ({"prefix": best, "append": added} if best else messages), [*marks, *map(_mark, added)]

    def keep(self, handle: str, marks: list[Any]) -> None:
        """Remember which messages `handle` stands for."""
        with self._lock:
            self._known.pop(handle, None)  # an unusual driver uses a handle again
            self._known[handle] = marks
            self._longest = max(self._longest, len(marks))
            while len(self._known) > self.KEPT:
                forgotten = self._known.pop(next(iter(self._known)))
                if len(forgotten) == self._longest:
                    self._longest = max(map(len, self._known.values()))


def _mark(message: Mapping[str, Any]) -> Any:
    """What tells a message apart, for good: the caller may change it later.

    A copy, which costs next to nothing to compare with: its texts are shared.  A message that holds anything else than
    texts is written out, for 1 == True == 1.0.
    """
    try:
        return _copy(message)
    except TypeError:
        return json.dumps(message, sort_keys=True)


def _all_same(marks: list[Any], messages: Sequence[Mapping[str, Any]]) -> bool:
    return marks == messages or all(
        mark == (json.dumps(message, sort_keys=True) if isinstance(mark, str) else message)
        for mark, message in zip(marks, messages)  # noqa: B905 (Python 3.8)
    )


def _copy(value: Any) -> Any:
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    if value is None or type(value) is str:
        return value
    raise TypeError


def _pack(data: str | bytes) -> dict[str, str]:
    try:
        return {"text": data if isinstance(data, str) else data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": binascii.b2a_base64(data, newline=False).decode("ascii")}  # type: ignore[arg-type]


def _unpack(packed: Mapping[str, str]) -> bytes:
    return packed["text"].encode("utf-8") if "text" in packed else binascii.a2b_base64(packed["base64"])


_ENCODE = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode

_KINDS = {
    "context_overflow": ContextOverflow,
    "rate_limited": RateLimited,
    "transport": TransportError,
    "file_fault": FileFault,
}


def _failure(error: Mapping[str, Any]) -> BaseException:
    data = error.get("data") or {}
    kind = str(data.get("kind", ""))
    if kind == "episode_over":
        return EpisodeOver(str(data.get("reason", "closed")))
    return _KINDS.get(kind, ProtocolError)(str(error.get("message", "")), kind, data)


class _Witness:
    """Which changed lines ran and which changed files were read.  Nothing is watched before the driver says what.

    A module of the harness that ran before this file was imported may have read anything: then all data files count.
    """

    TOOL = 4  # of sys.monitoring

    def __init__(self) -> None:
        self._root = os.getcwd()  # noqa: PTH109
        self._early = any(self._defines(module) for module in list(sys.modules.values()))
        self._read: set[str] = set()  # files and directories, until it is known which matter
        self._lines: dict[str, dict[int, str]] = {}  # by the file name of a code object, then by line
        self._calls: dict[str, dict[int, str]] = {}  # likewise, by the first line of a function
        self._left: set[str] = set()  # what did not happen yet
        self._codes: dict[int, tuple[Any, int, bool]] = {}  # by id: code, length of `left`, whether its lines matter
        self._news: list[str] = []  # what happened and was not told
        self._asked = False
        self._monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
        sys.addaudithook(self._hear)

    def start(self, files: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Watch from now on.  What is past counts: modules that are loaded, files that were read."""
        self._asked = True
        imported = {self._place(getattr(module, "__file__", None)) for module in list(sys.modules.values())}
        past = []
        for path, watches in files.items():
            for first, last, when in watches:
                name = f"{path}:{first}"
                for place in (os.path.join(self._root, path), path):  # noqa: PTH118
                    kind = self._calls if when == "call" else self._lines
                    self._lines.setdefault(place, {})
                    kind.setdefault(place, {}).update(dict.fromkeys(range(first, last + 1), name))
                self._left.add(name)
                past += [name] if when == "import" and path in imported else []
            if not watches:
                self._left.add(path)
                past += [path] if self._early or path in self._read else []
        for name in past:
            self._happened(name)
        if self._lines and self._left:
            self._watch()

    def news(self) -> dict[str, list[str]]:
        """What happened since it was last asked for, as a member of a request."""
        told = self._news[:]
        del self._news[: len(told)]
        return {"ran": told} if told else {}

    def _watch(self) -> None:
        tools = self._monitoring
        if tools and tools.get_tool(self.TOOL) is None:
            tools.use_tool_id(self.TOOL, NAME)
            tools.register_callback(self.TOOL, tools.events.PY_START, self._started)
            tools.register_callback(self.TOOL, tools.events.LINE, self._reached)
            tools.set_events(self.TOOL, tools.events.PY_START)
        else:
            self._monitoring = None
            threading.settrace(self._called)
            sys.settrace(self._called)
        frame = sys._getframe()
        while frame:  # whoever is running already
            if self._monitoring:
                self._started(frame.f_code, 0)
            else:
                frame.f_trace = self._called(frame, "call", None)
            frame = frame.f_back  # type: ignore[assignment]

    def _started(self, code: Any, offset: int) -> Any:
        if self._enters(code):
            self._monitoring.set_local_events(self.TOOL, code, self._monitoring.events.LINE)
        return self._monitoring.DISABLE

    def _reached(self, code: Any, line: int) -> Any:
        self._happened(self._lines[code.co_filename].get(line, ""))
        return self._monitoring.DISABLE

    def _called(self, frame: Any, event: str, arg: Any) -> Any:
        code = frame.f_code
        return self._stepped if code.co_filename in self._lines and self._enters(code) else None

    def _stepped(self, frame: Any, event: str, arg: Any) -> Any:
        name = self._lines[frame.f_code.co_filename].get(frame.f_lineno)
        if name and event == "line":
            self._happened(name)
        return self._stepped

    def _enters(self, code: Any) -> bool:
        """Whether lines of `code` matter that did not run yet."""
        known = self._codes.get(id(code))
        if known is not None and known[1] == len(self._left):
            return bool(known[2])
        lines = self._lines.get(code.co_filename, {})
        if lines and code.co_name != "<module>":
            self._happened(self._calls.get(code.co_filename, {}).get(code.co_firstlineno, ""))
        own = {line for *_, line in code.co_lines()} if hasattr(code, "co_lines") else lines
        matters = any(lines[line] in self._left for line in own if line in lines)
        self._codes[id(code)] = (code, len(self._left), matters)  # with the code, so that its id stays its own
        return matters

    def _happened(self, name: str) -> None:
        if name in self._left:
            self._left.discard(name)
            self._news.append(name)
            if not self._monitoring and not any(":" in left for left in self._left):
                threading.settrace(None)
                sys.settrace(None)

    def _hear(self, event: str, args: Sequence[Any]) -> None:
        if event in ("open", "os.listdir", "os.scandir"):
            path = self._place(args[0])
            if path:
                path += "" if event == "open" else "/"
                self._happened(path)
                if not self._asked:
                    self._read.add(path)

    def _place(self, path: Any) -> str:
        """A path as the driver names it; empty when it is not one of the harness's."""
        if not isinstance(path, (str, bytes)):
            return ""
        path = os.path.normpath(os.path.join(self._root, os.fsdecode(path)))  # noqa: PTH118
        return path[len(self._root) + 1 :] if path.startswith(self._root + os.sep) else ""

    def _defines(self, module: Any) -> bool:
        """Whether a module of the harness has values of its own, beside what it imported and the functions in it."""
        if getattr(module, "__name__", __name__) == __name__ or not self._place(getattr(module, "__file__", None)):
            return False
        names = [name for name, value in vars(module).items() if not (isinstance(value, type(sys)) or callable(value))]
        return any(name[:2] != "__" for name in names)


_WITNESS = _Witness()
