"""The files of one instance as a sandbox takes them: `tests/`, `solution/`, and the row that a log is graded against.

They lie in the user's cache, in a folder named by their content, and are never changed there.  The row without its
reference solution stays on this machine: no sandbox gets it.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import Prerequisite
from harnesstrain.taskset.swebench.patches import apply_script, patch_of
from harnesstrain.taskset.swebench.rows import Row, row_bytes
from harnesstrain.taskset.swebench.spec import WORKDIR, Spec
from harnesstrain.taskset.unfolded import swept, touch

VERSION = 1
"""Of the layout: another one is another folder."""
EXPECTED = "expected.json"
GOLD = "gold.patch"
SOLUTION = "/solution"
"""Where a solution lies while it is run."""


@dataclass(frozen=True)
class Parts:
    """Files of one instance."""

    tests: Path
    """The evaluation script and the test patch."""
    expected: Path
    """The row."""
    solution: Path | None
    """The reference patch and what applies it."""


def unfold(row: Row, spec: Spec) -> Parts:
    """Lay out a row.  Raises Prerequisite: the cache cannot be written."""
    expected = row_bytes(row.model_copy(update={"patch": "", "hints_text": ""}))
    gold = patch_of(row.patch)
    files = {f"tests/{name}": data for name, data in spec.files.items()} | {EXPECTED: expected}
    if not gold.empty:
        solve = f"#!/bin/bash\n{apply_script(WORKDIR, f'{SOLUTION}/{GOLD}')}"
        files |= {f"solution/{GOLD}": gold.data, "solution/solve.sh": solve.encode()}
    key = digest([VERSION, {name: digest_bytes(data) for name, data in files.items()}])
    folder = user_cache_path("harnesstrain") / "unfolded"
    place = folder / key[:32]
    if not place.is_dir():
        try:
            _make(files, place)
        except OSError as error:
            msg = f"{row.instance_id} cannot be laid out in {folder}: {error.filename or folder}: {error.strerror}"
            raise Prerequisite(msg, hint="make room there, or set XDG_CACHE_HOME to another place") from None
    touch(place)
    solution = None if gold.empty else place / "solution"
    return Parts(tests=place / "tests", expected=place / EXPECTED, solution=solution)


def _make(files: dict[str, bytes], place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    swept(place.parent)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=place.parent))
    try:
        for name, data in files.items():
            path = part / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o755 if name.endswith(".sh") else 0o644)
        part.chmod(0o755)
        try:
            part.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was first
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
