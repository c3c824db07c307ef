"""An instruction as it is shown: the file's text without the canary lines that lead it."""

from __future__ import annotations

import re
from pathlib import Path

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.document import read_text

_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_BYTES = 1024 * 1024


def read_instruction(path: Path) -> str:
    """The text of an instruction.  Raises ConfigError: missing, unreadable, empty."""
    text = without_canary(read_text(path, _BYTES))
    if not text.strip():
        raise ConfigError(f"{path} is empty", hint="write what the task asks for")
    return text


def without_canary(text: str) -> str:
    """A text without the canary lines that lead it, and the blank lines after them."""
    lines = text.splitlines(keepends=True)
    start = 0
    if lines and _CANARY.fullmatch(lines[0].strip()):
        while start < len(lines) and (_CANARY.fullmatch(lines[start].strip()) or not lines[start].strip()):
            start += 1
    return "".join(lines[start:])
