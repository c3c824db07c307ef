"""Which files a git diff touches."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(r"^diff --git (.*)$", re.MULTILINE)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_NAMED = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}


@dataclass(frozen=True)
class Touched:
    """One file of a diff."""

    old: str | None
    """Path before; None: it is new."""
    new: str | None
    """Path after; None: it is deleted."""


def touched_files(diff: str) -> tuple[Touched, ...]:
    """The files of a git diff, in order.  A renamed file has two paths; what is no git diff has none."""
    found = []
    heads = list(_HEADER.finditer(diff))
    for number, head in enumerate(heads, start=1):
        end = heads[number].start() if number < len(heads) else len(diff)
        about = diff[head.end() : end].split("\n@@ ", 1)[0].split("\nGIT binary patch", 1)[0]
        found.append(_touched(head[1].rstrip("\r"), about.replace("\r\n", "\n")))
    return tuple(found)


def _touched(header: str, about: str) -> Touched:
    lines = about.split("\n")
    moved_from = next((line[12:] for line in lines if line.startswith("rename from ")), None)
    moved_to = next((line[10:] for line in lines if line.startswith("rename to ")), None)
    if moved_from is not None and moved_to is not None:
        return Touched(_unquoted(moved_from), _unquoted(moved_to))
    path = _path(header)
    new = any(line.startswith("new file mode") for line in lines)
    deleted = any(line.startswith("deleted file mode") for line in lines)
    return Touched(None if new else path, None if deleted else path)


def _path(header: str) -> str:
    """The path in `a/PATH b/PATH`: both halves are the same unless the file is renamed."""
    if header.startswith('"'):
        return _unquoted(_QUOTED.findall(header)[-1] if header.endswith('"') else header)[2:]
    half = len(header) // 2
    if header[half : half + 1] == " " and header[2:half] == header[half + 3 :]:
        return header[2:half]
    return header.rsplit(" b/", 1)[-1]


def _unquoted(path: str) -> str:
    """A path as git writes it when it holds odd characters: quoted, bytes in octal."""
    inner = path[1:-1] if path.startswith('"') and path.endswith('"') and len(path) > 1 else path
    if "\\" not in inner:
        return inner
    raw = _ESCAPE.sub(lambda m: chr(int(m[1], 8)) if len(m[1]) == 3 else _NAMED.get(m[1], m[1]), inner)
    return raw.encode("latin-1", "replace").decode("utf-8", "replace") if raw.isascii() is False else raw
