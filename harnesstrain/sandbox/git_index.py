"""What a git index says about content, without its notes on the files it was made from."""

from __future__ import annotations

import struct

HEADER = struct.Struct(">4sII")
MODE = slice(24, 28)
ID_FROM = 40
"""Where the object's name starts, after owner and size."""
EXTENDED = 0x4000
SHA1 = 20


def said_by_index(data: bytes) -> bytes | None:
    """Mode, object, flags and path of every entry; None for what is no index that is understood."""
    try:
        magic, version, count = HEADER.unpack_from(data)
        if magic != b"DIRC" or version not in (2, 3, 4):
            return None
        said = []
        at, path = HEADER.size, b""
        for _ in range(count):
            fixed = data[at : at + ID_FROM + SHA1 + 2]
            flags = struct.unpack_from(">H", fixed, ID_FROM + SHA1)[0]
            start = at + len(fixed)
            extended = b""
            if flags & EXTENDED:
                extended = data[start : start + 2]
                start += 2
            if version == 4:
                dropped, start = _varint(data, start)
                end = data.index(b"\0", start)
                path = path[: len(path) - dropped] + data[start:end]
                at = end + 1
            else:
                end = data.index(b"\0", start)
                path = data[start:end]
                at += (end - at) // 8 * 8 + 8
            said.append(fixed[MODE] + fixed[ID_FROM : ID_FROM + SHA1 + 2] + extended + path + b"\0")
        return b"".join(said)
    except (struct.error, ValueError, IndexError):
        return None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number as git writes it, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
