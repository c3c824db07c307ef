"""Canonical JSON and the one digest function of the project.

Canonical: UTF-8, keys sorted, no spaces, strings NFC-normalised, no NaN or infinity.  Two equal values have equal
bytes on every machine; nothing that comes from a clock, a host or a path belongs in what is digested.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

DIGEST_HEX = 64
"""Length of a digest in hex characters (sha256)."""


def encoder(
    *, sort_keys: bool = False, ensure_ascii: bool = True, allow_nan: bool = True, spaces: bool = False
) -> Callable[[Any], str]:
    """What writes a value as JSON, byte for byte as `json.dumps` does, but made only once.

    `spaces`: one after each comma and colon, as `json.dumps` has them.

    It raises as that does; a value that holds itself is a RecursionError.
    """
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    comma, colon = (", ", ": ") if spaces else (",", ":")
    plain = json.JSONEncoder(
        sort_keys=sort_keys, ensure_ascii=ensure_ascii, allow_nan=allow_nan, separators=(comma, colon)
    )
    if make is None:  # another Python
        return plain.encode
    string = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring
    write = make(None, plain.default, string, None, colon, comma, sort_keys, False, allow_nan)
    return lambda value: "".join(write(value, 0))


_encode = encoder(sort_keys=True, ensure_ascii=False, allow_nan=False)


def normalise(value: Any) -> Any:
    """`value` with every string in NFC, tuples as lists and records as maps.  Raises TypeError on a non-string key."""
    if isinstance(value, str):
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, BaseModel):
        return normalise(value.model_dump(mode="json"))
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                msg = f"canonical JSON needs string keys, got {key!r}"
                raise TypeError(msg)
        return {normalise(key): normalise(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [normalise(item) for item in value]
    msg = f"not canonical: {type(value).__name__}"
    raise TypeError(msg)


def canonical(value: Any) -> bytes:
    """The canonical JSON bytes of a plain value or record."""
    if type(value) is str and value.isascii() and value.isalnum():  # a digest or a name: nothing to escape
        return b'"%b"' % value.encode("ascii")
    return _encode(normalise(value)).encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """sha256 (64 hex characters) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """sha256 (64 hex characters) of raw bytes."""
    return hashlib.sha256(data).hexdigest()


def roll(previous: str, value: Any) -> str:
    """One link of a rolling digest: H(previous, canonical value)."""
    return hashlib.sha256(previous.encode("ascii") + b"\n" + canonical(value)).hexdigest()


def digest_tree(root: Path, ignore: Iterable[str] = ("__pycache__", ".git")) -> str:
    """Digest of a directory: every file's relative path, executable bit and bytes; symlinks by their target.

    Times and owners do not count.  An absent directory has the digest of an empty one.
    """
    skip = set(ignore)
    entries: list[list[str]] = []
    for path in sorted(root.rglob("*"), key=lambda p: p.relative_to(root).as_posix()):
        relative = path.relative_to(root)
        if skip.intersection(relative.parts):
            continue
        name = relative.as_posix()
        if path.is_symlink():
            entries.append([name, "link", path.readlink().as_posix()])
        elif path.is_file():
            mode = "exec" if path.stat().st_mode & 0o100 else "file"
            entries.append([name, mode, digest_bytes(path.read_bytes())])
        elif path.is_dir():
            entries.append([name, "dir", ""])
    return digest(entries)
