"""The end of a log file, for an error that has to show it."""

from __future__ import annotations

from pathlib import Path


def log_size(path: Path) -> int:
    """Bytes in a log file so far; 0 when there is none."""
    return path.stat().st_size if path.exists() else 0


def log_tail(path: Path, lines: int = 20, *, since: int = 0) -> list[str]:
    """The last lines of a log file from byte `since` on, printable; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(since, file.tell() - 16_384))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    clean = ("".join(c for c in line if c.isprintable())[:500].rstrip() for line in text.splitlines())
    return [line for line in clean if line][-lines:]
