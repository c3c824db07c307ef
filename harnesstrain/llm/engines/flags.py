"""Extra flags for server programs: `{"name": "value"}` becomes `--name value`, an empty value a bare `--name`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def extra_flags(options: Mapping[str, str], *, reserved: Iterable[str]) -> list[str]:
    """Command-line words for `options`, sorted by name.  Raises UsageError on a bad or a reserved name."""
    taken = set(reserved)
    words: list[str] = []
    for name, value in sorted(options.items()):
        if not _NAME.fullmatch(name):
            raise UsageError(f"'{name}' is no flag of a model server", hint="give names like attention-backend")
        if name in taken:
            raise UsageError(f"the flag --{name} is set by ht itself", hint="use the option of `ht serve-llm`")
        words += [f"--{name}", value] if value else [f"--{name}"]
    return words


def served_name(model: str) -> str:
    """The name to serve a model under: a file or directory without where it lies."""
    path = Path(model)
    return path.resolve().name if path.exists() else model


def weights(model: str) -> dict[str, Any]:
    """What identifies a model: its name, and for a local one its content.

    A file is digested whole.  Of a directory, the small files (configuration, template, index) are digested, and of the
    large ones the names and sizes count.
    """
    path = Path(model)
    if path.is_file():
        return {"name": path.name, "sha256": _file_digest(path)}
    if path.is_dir():
        entries = [
            [item.name, item.stat().st_size, digest_bytes(item.read_bytes()) if item.stat().st_size < 2**25 else ""]
            for item in sorted(path.iterdir())
            if item.is_file()
        ]
        return {"name": path.name, "files": digest(entries)}
    return {"name": model}


def _file_digest(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
