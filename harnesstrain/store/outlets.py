"""Where a user wants a file: what is there already decides how it is written.

A plain file is replaced as a whole and keeps its mode and owner; a link stays, and what it names is replaced.  A device
or a pipe is written to.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from harnesstrain.core.errors import UsageError
from harnesstrain.store import files

_OPEN_FILES = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
"""Folders of what is written to even where it leads to a plain file: to replace that would take it from its reader."""


class Outlet(NamedTuple):
    """A place to write to."""

    path: Path
    """Links followed."""
    direct: bool
    """Whether it is opened and written to, instead of replaced."""
    before: os.stat_result | None
    """Of what is there."""

    def keep(self, handle: int) -> None:
        """Give an open file, which is to replace what is there, its owner and mode, as far as one may."""
        if self.before is not None:
            with suppress(OSError):
                os.fchown(handle, self.before.st_uid, self.before.st_gid)
            with suppress(OSError):
                os.fchmod(handle, stat.S_IMODE(self.before.st_mode))


def outlet(target: Path) -> Outlet:
    """How `target` is written.  Raises UsageError (a folder), Prerequisite (it cannot be looked at)."""
    try:
        before = target.stat()
    except FileNotFoundError:
        before = None
    except OSError as error:
        raise files.io_error(error, target) from error
    if before is None:
        return Outlet(_followed(target), direct=False, before=None)
    if stat.S_ISDIR(before.st_mode):
        raise UsageError(f"{target} is a folder", hint="name a file, new or to be replaced")
    if not stat.S_ISREG(before.st_mode) or target.parent in _OPEN_FILES:
        return Outlet(target, direct=True, before=before)
    return Outlet(_followed(target), direct=False, before=before)


def _followed(target: Path) -> Path:
    return Path(os.path.realpath(target)) if target.is_symlink() else target
