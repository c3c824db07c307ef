"""A host directory as what a sandbox takes: regular files, directories, links that stay inside."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.leftovers import is_leftover


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing of a tree."""

    kind: str
    """D directory, F file, L link."""
    path: str
    """Relative, with forward slashes."""
    mode: int = 0o755
    data: bytes = b""
    """A file's bytes; a link's target."""

    def encoded(self) -> tuple[bytes, bytes, bytes]:
        """Its form in a PUT request."""
        name = os.fsencode(self.path)
        if self.kind == "D":
            return b"D %d %d\n" % (self.mode, len(name)), name, b""
        if self.kind == "L":
            return b"L %d %d\n" % (len(name), len(self.data)), name, self.data
        return b"F %d %d %d\n" % (self.mode, len(name), len(self.data)), name, self.data


def entries(source: Path) -> list[Entry]:
    """Everything below the directory `source`, parents first, in a fixed order; modes are 0755 or 0644.

    Byte code that Python left beside its source is not given.  Raises ConfigError: not a directory, a device or pipe in
    it, a link that leads out of it.
    """
    if not source.is_dir() or source.is_symlink():
        raise ConfigError(f"{source} is not a directory")
    return list(_walk(source, source.resolve(), ""))


def _walk(folder: Path, root: Path, prefix: str) -> Iterator[Entry]:
    for path in sorted(folder.iterdir(), key=lambda item: item.name):
        if is_leftover(path):
            continue
        name = f"{prefix}{path.name}"
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield Entry("D", name)
            yield from _walk(path, root, f"{name}/")
        elif stat.S_ISREG(mode):
            yield Entry("F", name, 0o755 if mode & 0o100 else 0o644, path.read_bytes())
        elif stat.S_ISLNK(mode):
            target = path.readlink()
            inside = (path.parent / target).resolve()
            if target.is_absolute() or not inside.is_relative_to(root):
                raise ConfigError(f"{path} links out of its directory", hint="copy the file instead")
            yield Entry("L", name, data=os.fsencode(target))
        else:
            raise ConfigError(f"{path} is neither a file nor a directory", hint="remove it")
