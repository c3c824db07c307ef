"""A trace as rows and back.  Loss-free, linear in what was said, and readable with any Parquet reader.

Four sorts of row (`row`): `step`; `message`, a message or tool-schema list as JSON, stored once, just before the step
that first uses it; `log`, the harness's stderr.  The words of every row are in one column, `text`: the reply of an llm
step, the stdout of an action, the JSON of a message.  What the model says comes back in the next request and what a
command prints comes back as a message, so the second copy lies next to the first and compresses to almost nothing.

A step names its messages by digest, continued from an earlier step: it keeps the first `messages_kept` digests of step
`messages_from` and adds `messages`.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

from harnesstrain.core.digests import encoder
from harnesstrain.core.errors import HtError, StoreCorrupt
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Step, StepKind, Trace

Row = dict[str, Any]
"""Column name to value; absent means null."""

LOOK_BACK = 8
"""Earlier llm steps that a message list may continue: enough for a few interleaved conversations."""

_sorted, _readable, _ascii = encoder(sort_keys=True), encoder(ensure_ascii=False), encoder()

_AS_IT_IS = (
    "duration",
    "request_digest",
    "tools",
    "reasoning",
    "tool_calls",
    "finish_reason",
    "action",
    "exit_code",
    "scrubbed_digest",
    "raw_digest",
    "timed_out",
    "truncated",
    "live_only",
    "note",
    "error",
)
_MAPPED = {*_AS_IT_IS, "index", "kind", "source", "messages", "usage", "content", "stdout", "stderr", "ran"}
_UNMAPPED = {name: Step.model_fields[name].get_default() for name in sorted(set(Step.model_fields) - _MAPPED)}
"""Fields of a step that have no column, with their defaults."""


def rows_of(trace: Trace) -> list[Row]:
    """The rows of a trace, in order.  Raises HtError when the trace names a message it does not hold."""
    rows: list[Row] = []
    written: set[str] = set()
    chains: list[tuple[int, tuple[str, ...]]] = []
    if len({step.index for step in trace.steps}) != len(trace.steps):
        raise HtError(f"trace of rollout '{trace.rollout[:8]}' has two steps of one index")
    for step in trace.steps:
        told: Row = {}
        if step.kind is StepKind.LLM or step.messages:
            told = _continued(step.messages, chains)
            chains = [*chains[-LOOK_BACK + 1 :], (step.index, step.messages)]
        for digest in (*told.get("messages", ()), *((step.tools,) if step.tools else ())):
            if digest not in written:
                written.add(digest)
                rows.append(_message_row(trace, digest, step.index))
        rows.append(_step_row(step) | told)
    rows.extend(_message_row(trace, digest, None) for digest in sorted(trace.messages.keys() - written))
    if trace.log:
        rows.append({"row": "log", "text": trace.log})
    return rows


def trace_of(rollout: str, rows: Iterable[Row]) -> Trace:
    """The trace that `rows_of` took apart.  Raises StoreCorrupt."""
    steps: list[Step] = []
    messages: dict[str, Any] = {}
    lists: dict[int, tuple[str, ...]] = {}
    log = ""
    try:
        for row in rows:
            if row["row"] == "message":
                messages[row["digest"]] = json.loads(row["text"])
            elif row["row"] == "log":
                log = row["text"]
            else:
                names = tuple(row.get("messages") or ())
                if row.get("messages_from") is not None:
                    names = (*lists[row["messages_from"]][: row["messages_kept"]], *names)
                if "messages" in row:
                    lists[row["step"]] = names
                steps.append(_step(row, names))
        return Trace(rollout=rollout, steps=tuple(steps), messages=messages, log=log)
    except (KeyError, ValueError, TypeError) as error:
        hint = "`ht fsck` lists damaged traces"
        raise StoreCorrupt(f"trace of rollout '{rollout[:8]}' cannot be read: {error!r}"[:300], hint=hint) from error


def digest_of_rows(rollout: str, rows: Iterable[Row]) -> str:
    """Digest of a trace's content.  The same whichever file holds the rows and in whatever order messages lie there."""
    steps: list[Row] = []
    messages: list[list[str]] = []
    log = ""
    for row in rows:
        if row["row"] == "step":
            steps.append(row)
        elif row["row"] == "message":
            messages.append([row["digest"], row["text"]])
        else:
            log = row["text"]
    content = _sorted([rollout, steps, sorted(messages), log])
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def referenced(rows: Iterable[Row]) -> set[str]:
    """Digests of the messages that the step rows name."""
    names: set[str] = set()
    for row in rows:
        if row["row"] == "step":
            names.update(row.get("messages") or ())
            if row.get("tools"):
                names.add(row["tools"])
    return names


def _message_row(trace: Trace, digest: str, step: int | None) -> Row:
    if digest not in trace.messages:
        raise HtError(f"trace of rollout '{trace.rollout[:8]}' names message '{digest[:8]}' but does not hold it")
    text = _readable(trace.messages[digest])
    if not _encodable(text):
        text = _ascii(trace.messages[digest])
    row: Row = {"row": "message", "digest": digest, "text": text}
    if step is not None:
        row["step"] = step
    return row


def _continued(names: tuple[str, ...], chains: list[tuple[int, tuple[str, ...]]]) -> Row:
    """The message columns of one step: continued from the chain that shares most."""
    best, kept = None, 0
    for index, chain in reversed(chains):
        shared = _shared(chain, names)
        if shared > kept:
            best, kept = index, shared
        if shared == len(chain):
            break
    if best is None:
        return {"messages": list(names)}
    return {"messages_from": best, "messages_kept": kept, "messages": list(names[kept:])}


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Length of the common beginning."""
    if one == other[: len(one)]:
        return len(one)
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return position
    return min(len(one), len(other))


def _step_row(step: Step) -> Row:
    row: Row = {"row": "step", "step": step.index, "kind": str(step.kind), "source": str(step.source)}
    values = vars(step)
    row |= {name: value for name in _AS_IT_IS if (value := values[name]) is not None}
    if step.ran:
        row["ran"] = list(step.ran)
    if step.usage is not None:
        row["prompt_tokens"], row["cached_tokens"] = step.usage.prompt, step.usage.cached
        row["completion_tokens"], row["reasoning_tokens"] = step.usage.completion, step.usage.reasoning
    exact = _unmapped(step)
    if step.kind is StepKind.LLM:
        spare, spare_value = "stdout", _base64(step.stdout)
        if step.content is not None:
            row["text"] = step.content
    else:
        spare, spare_value = "content", step.content
    if spare_value is not None:
        exact[spare] = spare_value
    encoding = _encoding(step)
    if step.kind is not StepKind.LLM and step.stdout is not None:
        row["text"] = step.stdout.decode(encoding)
    if step.stderr is not None:
        row["stderr"] = step.stderr.decode(encoding)
    if encoding != "utf-8":
        row["encoding"] = encoding
    if exact:
        row["exact"] = _sorted(exact)
    return row


def _step(row: Row, names: tuple[str, ...]) -> Step:
    exact: dict[str, Any] = json.loads(row["exact"]) if row.get("exact") else {}
    if "stdout" in exact:
        exact["stdout"] = b64decode(exact["stdout"])
    fields: dict[str, Any] = {name: row[name] for name in _AS_IT_IS if name in row}
    encoding = row.get("encoding", "utf-8")
    if "ran" in row:
        fields["ran"] = tuple(row["ran"])
    if "text" in row:
        if row["kind"] == StepKind.LLM.value:
            fields["content"] = row["text"]
        else:
            fields["stdout"] = row["text"].encode(encoding)
    if "stderr" in row:
        fields["stderr"] = row["stderr"].encode(encoding)
    if "prompt_tokens" in row:
        fields["usage"] = Usage(
            prompt=row["prompt_tokens"],
            cached=row["cached_tokens"],
            completion=row["completion_tokens"],
            reasoning=row["reasoning_tokens"],
        )
    return Step(index=row["step"], kind=row["kind"], source=row["source"], messages=names, **{**fields, **exact})


def _encoding(step: Step) -> str:
    """utf-8 when both streams are; latin-1, which holds any bytes, otherwise."""
    for stream in (step.stdout if step.kind is not StepKind.LLM else None, step.stderr):
        if stream is not None and not stream.isascii():
            try:
                stream.decode("utf-8")
            except UnicodeDecodeError:
                return "latin-1"
    return "utf-8"


def _unmapped(step: Step) -> dict[str, Any]:
    """Fields that have no column of their own, so that a field added to Step is never lost."""
    values = vars(step)
    told = {name for name, default in _UNMAPPED.items() if values[name] != default}
    return step.model_dump(mode="json", include=told) if told else {}


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
