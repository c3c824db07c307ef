"""TOML files read strictly: what is wrong is said with file, line and key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harnesstrain.core.errors import ConfigError

MAX_BYTES = 1024 * 1024
"""Size of a task.toml or panel file, at most."""

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Document:
    """One parsed TOML file."""

    path: Path
    text: str
    table: Mapping[str, Any]

    def wrong(self, what: str, key: tuple[str, ...] = (), hint: str | None = None) -> NoReturn:
        """Raise ConfigError about `key`, with its line when it can be found."""
        line = self.line(key)
        place = f"{self.path}:{line}" if line else str(self.path)
        raise ConfigError(f"{place}: {what}", hint=hint or "correct the file")

    def line(self, key: tuple[str, ...]) -> int | None:
        """Best-effort line of a key: that of its assignment, else of its table."""
        best: int | None = None
        table: list[str] = []
        for number, line in enumerate(self.text.splitlines(), start=1):
            if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
                table = _parts(header[1])
            elif assigned := re.match(r"\s*([\w\"'-][\w\"'. -]*?)\s*=", line):
                if tuple(table + _parts(assigned[1])) == key[: len(table) + len(_parts(assigned[1]))]:
                    return number
                continue
            else:
                continue
            if key and tuple(table) == key[: len(table)]:
                best = number
        return best


def _parts(dotted: str) -> list[str]:
    return [part.strip(" \"'") for part in dotted.split(".")]


def read(path: Path) -> Document:
    """Parse a TOML file.  Raises ConfigError: missing, unreadable, too large, not UTF-8, not TOML."""
    text = read_text(path, MAX_BYTES)
    try:
        return Document(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        line = at[1] if at else max(1, len(text.splitlines()))
        raise ConfigError(f"{path}:{line}: not TOML: {error}", hint="correct the file") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply", hint="correct the file") from None


def read_text(path: Path, max_bytes: int) -> str:
    """A text file.  Raises ConfigError: missing, unreadable, too large, not UTF-8, with a byte order mark or NULs."""
    try:
        if path.stat().st_size > max_bytes:
            raise ConfigError(f"{path}: larger than {max_bytes} bytes", hint="correct the file")
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing", hint="add it") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="check the file") from None
    if data.startswith(BOM):
        raise ConfigError(f"{path}: starts with a byte order mark", hint="save the file as UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8", hint="save the file as UTF-8") from None
    if "\0" in text:
        raise ConfigError(f"{path}: has a NUL character", hint="save the file as UTF-8 text")
    return text
