"""stdout is data only; stderr is progress, summaries, warnings, hints.  Text of models and tasks is stripped first."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harnesstrain.core.errors import Prerequisite, UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from pydantic import BaseModel

SCHEMA = 1
"""Of the --json envelope."""
_OBJECT: dict[str, Any] = {}
"""The --json object that this command will write when it ends."""

_CLOSED: set[int] = set()
"""Standard streams that were closed when this process started."""

_CONTROL = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]?|\x1b.?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


class _Stdout(io.FileIO):
    """stdout that says so when it cannot be written, once; what is left to write is then dropped."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Raises BrokenPipeError, Prerequisite."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            hint = "free some space, or write to another place; what was committed is kept"
            raise Prerequisite(f"cannot write the output: {error.strerror}", hint=hint) from error


def guard() -> None:
    """Have every write to stdout fail in the project's own words, and none for what its encoding lacks.

    A stream that is closed leads nowhere from now on: no file that is opened later takes its place.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            _CLOSED.add(number)
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(nowhere, True)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8", errors="replace"))
    found = sys.stdout
    if not isinstance(found, io.TextIOWrapper) or found.fileno() != 1 or 1 in _CLOSED:
        return
    found.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(1, "w", closefd=False)),
        encoding=found.encoding,
        errors=_FORGIVING.get(found.errors, found.errors),
        line_buffering=found.line_buffering,
    )


def _bytes_or_marks(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("replace")(error)


codecs.register_error("ht-bytes-or-marks", _bytes_or_marks)
_FORGIVING = {None: "replace", "strict": "replace", "surrogateescape": "ht-bytes-or-marks"}
"""What becomes of a character that the encoding of stdout lacks, by what Python would have done."""


def received() -> str:
    """What stdin holds.  Raises UsageError when it cannot be read."""
    try:
        if 0 not in _CLOSED:
            return sys.stdin.buffer.read().decode("utf-8", "replace")
        why = "it is closed"
    except OSError as error:
        why = str(error.strerror)
    raise UsageError(f"cannot read stdin: {why}", hint="pipe the ids into it, or name them")


def clean(text: str) -> str:
    """`text` without escape sequences, control characters (but newline and tab) and direction overrides."""
    return _CONTROL.sub("", text)


def data(text: str) -> None:
    """One line of data on stdout."""
    sys.stdout.write(clean(text) + "\n")
    sys.stdout.flush()


def say(text: str, quiet: bool = False) -> None:
    """One line of talk on stderr."""
    if not quiet:
        sys.stderr.write(clean(text) + "\n")
        sys.stderr.flush()


def counted(number: int, what: str) -> str:
    """`1 file`, `2 files`: a number and what it counts, given as one."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def emit(kind: str, body: Mapping[str, Any] | BaseModel, *, now: bool = False) -> None:
    """The one --json object of this command: the envelope, then every key of `body`.

    It is written when the command ends, so that it can say how: `error` is null, or what went wrong after all.
    `now`: for a command that goes on after it has said what it has to say.
    """
    _OBJECT.update(envelope(kind, body))
    if now:
        finish()


def envelope(kind: str, body: Mapping[str, Any] | BaseModel) -> dict[str, Any]:
    """A --json object without an error."""
    plain = dict(body) if isinstance(body, Mapping) else body.model_dump(mode="json")
    as_of = datetime.now(UTC).isoformat(timespec="seconds")
    return {"schema": SCHEMA, "kind": kind, "as_of": as_of, "error": None, **plain}


def encoded(found: Mapping[str, Any]) -> str:
    """A --json object as its one line, newline included, in characters that stdout has."""
    escaped = codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"
    return json.dumps(found, ensure_ascii=escaped, default=_plain, allow_nan=False) + "\n"


def emit_list(kind: str, items: Sequence[Any], *, truncated: bool = False, **more: Any) -> None:
    """A --json list: `items`, and whether some were left out."""
    emit(kind, {"items": list(items), "truncated": truncated, **more})


def emit_one_or_list(kind: str, items: Sequence[Any]) -> None:
    """One record as `kind`; none or several as a list of kind `kind`s."""
    if len(items) == 1:
        emit(kind, items[0])
    else:
        emit_list(f"{kind}s", items)


def finish(error: Mapping[str, Any] | None = None) -> None:
    """Write the --json object, if this command has one; with `error`, one is made where there is none."""
    if error is not None and not _OBJECT:
        emit("error", {})
    if _OBJECT:
        text = encoded(_OBJECT | {"error": error})
        _OBJECT.clear()
        sys.stdout.write(text)
        sys.stdout.flush()


def finite(value: float | None) -> float | str | None:
    """A float as JSON can hold it: infinity as text."""
    if value is None or value == value and abs(value) != float("inf"):
        return value
    return "Infinity" if value > 0 else "-Infinity"


def colour(stream: Any) -> bool:
    """Whether escape sequences may be written to `stream`."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def animated(stream: Any) -> bool:
    """Whether `stream` is a terminal that can be redrawn in place.  NO_COLOR does not forbid that."""
    return bool(stream.isatty()) and os.environ.get("TERM", "") not in ("dumb", "")


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)
