"""Messages between the pool and a worker process: length-prefixed JSON over a socket pair.

The end of the other process is the end of the stream, so a worker whose parent was killed sees it at once.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
from typing import Any

from harnesstrain.core.errors import (
    BadRequest,
    ContextOverflow,
    HtError,
    LlmFailure,
    Prerequisite,
    UsageError,
)

_HEAD = struct.Struct(">I")
_RAISED: dict[str, type[HtError]] = {
    kind.kind: kind for kind in (BadRequest, ContextOverflow, LlmFailure, Prerequisite, UsageError)
}


class Closed(Exception):
    """The other end is gone."""


class Channel:
    """One end of a socket pair.  Each direction is used by one thread at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def close(self) -> None:
        """Close this end; a blocked reader of it wakes up."""
        with contextlib.suppress(OSError):  # the other end was first
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.  Raises Closed."""
        body = json.dumps(message).encode("ascii")
        try:
            self._end.sendall(_HEAD.pack(len(body)) + body)
        except OSError as error:
            raise Closed(str(error)) from error

    def ready(self, seconds: float) -> bool:
        """Whether something (a message or the end) can be read within `seconds`.  Raises Closed."""
        poll = select.poll()
        try:
            poll.register(self._end, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from error

    def receive(self) -> dict[str, Any]:
        """The next message; blocks.  Raises Closed."""
        message: dict[str, Any] = json.loads(self._read(_HEAD.unpack(self._read(_HEAD.size))[0]))
        return message

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self._end.recv(min(size - len(data), 1 << 20))
            except OSError as error:
                raise Closed(str(error)) from error
            if not part:
                raise Closed("end of stream")
            data += part
        return bytes(data)


def failure(error: HtError) -> dict[str, Any]:
    """An error as a message."""
    return {"error": {"kind": error.kind, "message": error.message, "hint": error.hint, "extra": error.extra}}


def raise_failure(message: dict[str, Any]) -> None:
    """Raise the error that a message carries, if it carries one."""
    carried = message.get("error")
    if carried is not None:
        kind = _RAISED.get(carried["kind"], LlmFailure)
        raise kind(carried["message"], hint=carried["hint"], **carried["extra"])
