"""Artifacts: carried from a final state into the verifier's own environment, at the same paths.

Nothing that the final state sends is trusted: files pass through a directory of this machine, in which they are data.
"""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Iterable
from pathlib import Path

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.task import Artifact
from harnesstrain.core.scratch import temporary
from harnesstrain.sandbox.base import FileFault, Session

ABSENT = ("ENOENT", "ENOTDIR")
EXECUTABLE = 0o100


def carry(artifacts: Iterable[Artifact], source: Session, target: Session) -> tuple[str, ...]:
    """Carry what is there; returns the paths that are not.

    Raises FileFault when something of the final state cannot be read, SandboxFailure when it cannot be laid down.
    """
    missing = []
    with temporary("artifacts") as folder:
        for number, artifact in enumerate(artifacts):
            place = Path(folder, str(number))
            try:
                source.get(artifact.source, place)
            except FileFault as fault:
                if fault.errno not in ABSENT:
                    raise
                missing.append(artifact.source)
                continue
            _leave_out(place, artifact.exclude)
            _lay_down(place, artifact.source, target)
    return tuple(missing)


def _leave_out(place: Path, patterns: tuple[str, ...]) -> None:
    """Remove what a pattern names: by its own name, or by its path below the artifact."""
    if not patterns or not place.is_dir():
        return
    for path in sorted(place.rglob("*"), reverse=True):
        names = (path.name, path.relative_to(place).as_posix())
        if not any(fnmatch.fnmatchcase(name, pattern.rstrip("/")) for name in names for pattern in patterns):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _lay_down(place: Path, path: str, target: Session) -> None:
    try:
        if place.is_dir():
            target.put(place, path)
        elif place.is_file():
            target.write(path, place.read_bytes(), 0o755 if place.stat().st_mode & EXECUTABLE else 0o644)
    except FileFault as fault:
        raise SandboxFailure(f"artifact {path} cannot be laid down for the verifier: {fault.message}") from fault
