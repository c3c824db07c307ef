"""The digest of a directory that a sandbox gets: every name, byte, executable bit and link in it.

Hidden files, nested `.git` folders and stray editor files reach the sandbox, so they count.  Not covered: what no
sandbox is given (byte code that Python left beside its source), and what neither a checkout nor a sandbox keeps
(times, owners, permission bits other than executable and set-id of files).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_from_bytes

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import ConfigError
from harnesstrain.core.leftovers import is_leftover

_CHUNK = 1024 * 1024


def digest_directory(root: Path) -> str:
    """Digest of everything below `root`, which must be a real directory.

    Raises ConfigError for what cannot be covered: a link that leaves `root` or runs in a circle, a device, socket or
    pipe, a file that cannot be read.
    """
    try:
        if root.is_symlink():
            raise ConfigError(f"{root} is a link", hint="put the files there")
        return digest(sorted(_entries(root, root)))
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename or root}: {error.strerror}", hint="check the file") from None


def _entries(directory: Path, root: Path) -> Iterator[list[str]]:
    with os.scandir(directory) as scan:
        for entry in scan:
            path = Path(entry.path)
            if is_leftover(path):
                continue
            name = quote_from_bytes(os.fsencode(path.relative_to(root)))
            if entry.is_symlink():
                yield [name, "link", quote_from_bytes(os.fsencode(_target(path, root)))]
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                yield [name, "dir", ""]
                yield from _entries(path, root)
            elif stat.S_ISREG(mode):
                yield [name, ("exec" if mode & 0o100 else "file") + _special(mode), _digest_file(path)]
            else:
                raise ConfigError(f"{path} is neither file, directory nor link", hint="remove it from the task")


def _special(mode: int) -> str:
    bits = mode & 0o7000
    return f"+{bits:o}" if bits else ""


def _digest_file(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def _target(link: Path, root: Path) -> str:
    """Where a link points, if that stays inside `root`."""
    target = os.readlink(link)  # noqa: PTH115  (the text itself, not a normalised path)
    leaves = ConfigError(f"{link} points out of {root.name}/: {target}", hint="replace the link by the file itself")
    if Path(target).is_absolute():
        raise leaves
    try:
        reached = link.parent.resolve(strict=True) / target
        resolved = reached.resolve()
        if reached.is_symlink():
            reached.stat()
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError):
        raise ConfigError(f"{link} is part of a circle of links", hint="remove the link") from None
    inside = root.resolve()
    if not resolved.is_relative_to(inside):
        raise leaves
    if link.parent.resolve().is_relative_to(resolved):
        raise ConfigError(f"{link} points to a directory that it is in", hint="remove the link")
    return target
