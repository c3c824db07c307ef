"""Search/replace edits as a model writes them, and applying them to a worktree.

    FILE: agent/parsing.py
    <<<<<<< SEARCH
    text that stands in the file exactly once
    =======
    text that takes its place
    >>>>>>> REPLACE

An empty search part makes a new file, or replaces an empty one.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from harnesstrain.core.records.base import Record

_BLOCK = re.compile(
    r"^FILE:[ \t]*(?P<path>\S.*?)[ \t]*\n(?:```\w*\n)?<<<<<<<[ ]?SEARCH[ \t]*\n(?P<search>.*?)^=======[ \t]*\n"
    r"(?P<replace>.*?)^>>>>>>>[ ]?REPLACE[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


class EditRefused(ValueError):
    """An edit that cannot be applied; the message is written for the model that made it."""


class Edit(Record):
    """One replacement in one file."""

    path: str
    search: str
    replace: str


def parse(reply: str) -> tuple[Edit, ...]:
    """The edits in a model's reply, in order."""
    text = reply.replace("\r\n", "\n")
    return tuple(
        Edit(path=found["path"].strip("`").removeprefix("./"), search=found["search"], replace=found["replace"])
        for found in _BLOCK.finditer(text)
    )


def apply(worktree: Path, edits: tuple[Edit, ...]) -> None:
    """Apply all edits, or none.  Raises EditRefused naming the first that does not apply."""
    changed: dict[Path, str] = {}
    for edit in edits:
        target = _inside(worktree, edit.path)
        before = changed.get(target)
        if before is None:
            before = _read(target, edit.path)
        changed[target] = _replaced(before, edit)
    for target, text in changed.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        windows = _windows(target.read_bytes()) if target.exists() else False
        target.write_bytes((text.replace("\n", "\r\n") if windows else text).encode())


def _replaced(before: str, edit: Edit) -> str:
    if not edit.search.strip():
        if before.strip():
            msg = f"{edit.path} exists and is not empty; quote the lines to replace in the search part"
            raise EditRefused(msg)
        return edit.replace
    count = before.count(edit.search)
    if count != 1:
        how = "does not stand" if count == 0 else f"stands {count} times"
        first = edit.search.strip().splitlines()[0]
        msg = f"the search part that begins with {first!r} {how} in {edit.path}; it must stand there exactly once"
        raise EditRefused(msg)
    return before.replace(edit.search, edit.replace)


def _inside(worktree: Path, path: str) -> Path:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        msg = f"{path!r} is not a path inside the harness"
        raise EditRefused(msg)
    target = worktree
    for part in pure.parts:
        target = target / part
        if target.is_symlink():
            msg = f"{path!r} goes through a symbolic link"
            raise EditRefused(msg)
    return target


def _read(target: Path, path: str) -> str:
    if not target.exists():
        return ""
    if not target.is_file():
        msg = f"{path!r} is not a file"
        raise EditRefused(msg)
    try:
        data = target.read_bytes()
        return data.replace(b"\r\n", b"\n").decode() if _windows(data) else data.decode()
    except UnicodeDecodeError as error:
        msg = f"{path!r} is not a text file"
        raise EditRefused(msg) from error


def _windows(data: bytes) -> bool:
    """Whether every line ends as on Windows."""
    return b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n")
