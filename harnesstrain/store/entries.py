"""What a cache stores of a reply, a step and a grade: exact, compact, sealed bytes.

A reply and a grade are their JSON.  A step is a header in JSON, then stdout and stderr as they are.  A value starts
with one byte: 0, the bytes follow; 1, they follow compressed by zstd, where that makes them smaller.
"""

from __future__ import annotations

import hashlib
import struct
import threading

import zstandard
from pydantic_core import from_json

from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.llm import Reply

PLAIN, ZSTD = b"\0", b"\1"

WORTH = 256
"""Bytes below which compressing is not tried."""

_LENGTHS = struct.Struct(">III")
"""Bytes of a step's header, stdout and stderr."""
_STREAMS = {"result": {"stdout", "stderr"}}


class _Zstd(threading.local):
    """A compressor and a decompressor for each thread: neither may be shared."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=1).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_zstd = _Zstd()


def packed(value: bytes) -> bytes:
    """`value` as it is stored."""
    if len(value) >= WORTH:
        smaller = _zstd.compress(value)
        if len(smaller) < len(value) * 0.9:
            return ZSTD + smaller
    return PLAIN + value


def unpacked(stored: bytes) -> bytes:
    """The value behind `packed`.  Raises ValueError."""
    kind, body = stored[:1], stored[1:]
    if kind == PLAIN:
        return body
    if kind != ZSTD:
        raise ValueError("unknown packing")
    try:
        return _zstd.decompress(body)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def seal(cache: str, epoch: int, key: bytes, stored: bytes) -> bytes:
    """16 bytes over an entry and its place: an entry that was damaged or moved does not fit its seal."""
    return hashlib.sha256(b"%b\n%d\n%b\n%b" % (cache.encode(), epoch, key, stored)).digest()[:16]


def reply_bytes(reply: Reply) -> bytes:
    """A reply as bytes."""
    return reply.model_dump_json().encode("utf-8")


def reply_from(value: bytes) -> Reply:
    """The reply behind `reply_bytes`.  Raises ValueError when another version wrote it."""
    return Reply.model_validate_json(value)


def step_bytes(entry: StepEntry) -> bytes:
    """A step as bytes."""
    header = entry.model_dump_json(exclude=_STREAMS).encode("utf-8")
    stdout, stderr = entry.result.stdout, entry.result.stderr
    return b"".join((_LENGTHS.pack(len(header), len(stdout), len(stderr)), header, stdout, stderr))


def step_from(value: bytes) -> StepEntry:
    """The step behind `step_bytes`.  Raises ValueError when another version wrote it."""
    try:
        header, stdout, stderr = _LENGTHS.unpack_from(value)
        middle = _LENGTHS.size + header
        end = middle + stdout
        if len(value) != end + stderr:
            raise ValueError("not a step: its length is wrong")
        found = from_json(value[_LENGTHS.size : middle])
        found["result"] |= {"stdout": value[middle:end], "stderr": value[end:]}
        return StepEntry.model_validate(found)
    except (struct.error, KeyError, TypeError) as error:
        raise ValueError(f"not a step: {error}") from error


def grade_bytes(entry: GradeEntry) -> bytes:
    """A grade as bytes."""
    return entry.model_dump_json().encode("utf-8")


def grade_from(value: bytes) -> GradeEntry:
    """The grade behind `grade_bytes`.  Raises ValueError when another version wrote it."""
    return GradeEntry.model_validate_json(value)
