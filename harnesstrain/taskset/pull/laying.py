"""Files written below one directory, whatever their names say.

A name that leaves the directory is an error.  Links are made last, so that nothing is ever written through one, and
must stay inside.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from pathlib import Path

from harnesstrain.core.errors import ConfigError, Prerequisite

MAX_FILES = 1_000_000
_HINT = "the data set is damaged or hostile; take it from its publisher"


def inside(name: str) -> str | None:
    """The relative path that `name` stands for, `.` and empty parts left out; None when it leaves its directory."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or "\0" in name or "\\" in name or ".." in parts or not parts:
        return None
    return "/".join(parts)


class Layout:
    """One directory being filled.  Its files are 0755 or 0644."""

    def __init__(self, root: Path, origin: str) -> None:
        """`root` is made; `origin` is named in errors."""
        self._root = root
        self._origin = origin
        self._links: dict[str, str] = {}
        self._seen: set[str] = set()
        self.bytes = 0
        """Written so far."""
        root.mkdir(parents=True, exist_ok=True)

    def directory(self, name: str) -> None:
        """Make a directory.  Raises ConfigError."""
        path = self._place(name, repeated=True)
        self._made(path)

    def file(self, name: str, chunks: Iterable[bytes], *, executable: bool = False) -> None:
        """Write a new file.  Raises ConfigError (its name), Prerequisite (the disk)."""
        path = self._place(name)
        self._made(path.parent)
        try:
            descriptor = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if executable else 0o644
            )
            with open(descriptor, "wb") as file:  # noqa: PTH123  (a descriptor, not a path)
                for chunk in chunks:
                    file.write(chunk)
                    self.bytes += len(chunk)
        except FileExistsError:
            raise self._wrong(f"has {name} twice") from None
        except OSError as error:
            raise self._disk(error) from None
        path.chmod(0o755 if executable else 0o644)

    def link(self, name: str, target: str) -> None:
        """Remember a symbolic link; `finish` makes it.  Raises ConfigError when it leaves the directory."""
        self._place(name)
        clean = inside(name)
        assert clean is not None
        reached = posixpath.normpath(posixpath.join(posixpath.dirname(clean), target))
        if target.startswith("/") or "\0" in target or not target or reached.split("/")[0] == "..":
            raise self._wrong(f"has a link that leaves it: {name} -> {target}")
        self._links[clean] = target

    def finish(self) -> None:
        """Make the links.  Raises ConfigError for one that leaves the directory by way of another."""
        for name, target in self._links.items():
            path = self._root / name
            try:
                self._made(path.parent)
                path.symlink_to(target)
            except FileExistsError:
                raise self._wrong(f"has {name} as a link and as something else") from None
            except OSError as error:
                raise self._disk(error) from None
        root = self._root.resolve()
        for name in self._links:
            path = self._root / name
            try:
                reached = path.resolve()
            except (OSError, RuntimeError):
                raise self._wrong(f"has a circle of links at {name}") from None
            if not reached.is_relative_to(root) or not path.parent.resolve().is_relative_to(root):
                raise self._wrong(f"has a link that leaves it: {name}")

    def _place(self, name: str, *, repeated: bool = False) -> Path:
        clean = inside(name)
        if clean is None:
            raise self._wrong(f"has a file outside of it: {name[:200]!r}")
        if clean in self._seen and not repeated:
            raise self._wrong(f"has {clean} twice")
        self._seen.add(clean)
        if len(self._seen) > MAX_FILES:
            raise self._wrong(f"has more than {MAX_FILES} files")
        return self._root / clean

    def _made(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise self._wrong(f"has {path.name} as a file and as a directory") from None
        except NotADirectoryError:
            raise self._wrong(f"has a file where {path.name} is a directory") from None
        except OSError as error:
            raise self._disk(error) from None

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"{self._origin} {what}", hint=_HINT)

    def _disk(self, error: OSError) -> Prerequisite:
        return Prerequisite(f"cannot write {self._root}: {error.strerror}", hint="make room on the disk, then rerun")
