"""The parts of a task laid out as a sandbox takes them: `environment/`, `tests/`, `solution/`.

In this format the build context is the task's whole directory, with its tests and its solution in it.  They are left
out of the context, so that no `COPY . .` shows them to the harness; what the Dockerfile copies by name stays.  The
parts lie in the user's cache, in a folder named by the content they were made from, and are never changed there.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import ConfigError, Prerequisite
from harnesstrain.core.leftovers import is_leftover
from harnesstrain.taskset.content import digest_directory
from harnesstrain.taskset.unfolded import swept, touch

VERSION = 1
"""Of the layout: another one is another folder."""

RUN_TESTS = "run-tests.sh"
PRINTED = "/logs/verifier/run-tests.txt"
"""Where the tests' output goes, whole."""

WRAPPER = f"""#!/bin/bash
# Runs the task's own tests as they are.  Their results are read from what they print.
mkdir -p /logs/verifier /agent-logs
bash /tests/{RUN_TESTS} > {PRINTED} 2>&1
code=$?
tail -c 20000 {PRINTED}
exit $code
"""

HIDDEN = ("task.yaml", "docker-compose.yaml", "solution.sh", "solution.yaml", RUN_TESTS, "tests")
"""What no build context gets unless the Dockerfile names it."""

_COPY = re.compile(r"^\s*(?:COPY|ADD)\s+(.*)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Parts:
    """Directories of one task."""

    environment: Path | None
    """Build context; None for a ready image."""
    tests: Path
    solution: Path | None


def unfold(directory: Path, dockerfile: str | None, solution: str | None) -> Parts:
    """Lay out the task in `directory`; `dockerfile` relative to it, `solution`: the text of solve.sh.

    Raises ConfigError (its files cannot be used), Prerequisite (the cache cannot be written).
    """
    key = digest([VERSION, digest_directory(directory), dockerfile, solution])
    folder = _folder()
    place = folder / key[:32]
    if not place.is_dir():
        try:
            _make(directory, dockerfile, solution, place)
        except OSError as error:
            named = error.filename or folder
            msg = f"the task cannot be laid out in {folder}: {named}: {error.strerror}"
            raise Prerequisite(msg, hint="make room there, or set XDG_CACHE_HOME to another place") from None
    touch(place)
    return Parts(
        environment=place / "environment" if dockerfile is not None else None,
        tests=place / "tests",
        solution=place / "solution" if solution is not None else None,
    )


def copied_by_name(dockerfile: Path) -> frozenset[str]:
    """Those of HIDDEN that the Dockerfile copies by name."""
    try:
        text = dockerfile.read_text(encoding="utf-8").replace("\\\n", " ")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{dockerfile} cannot be read: {error}", hint="check the file") from None
    words = re.split(r"""[\s"',\[\]]+""", " ".join(_COPY.findall(text)))
    return frozenset(word.removeprefix("./").split("/")[0] for word in words) & frozenset(HIDDEN)


def _folder() -> Path:
    return user_cache_path("harnesstrain") / "unfolded"


def _make(directory: Path, dockerfile: str | None, solution: str | None, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    swept(place.parent)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=place.parent))
    try:
        if dockerfile is not None:
            hidden = frozenset(HIDDEN) - copied_by_name(directory / dockerfile)
            _copy(directory, part / "environment", hidden)
            if dockerfile != "Dockerfile":
                shutil.copyfile(directory / dockerfile, part / "environment" / "Dockerfile")
        if (directory / "tests").is_dir():
            _copy(directory / "tests", part / "tests")
        (part / "tests").mkdir(exist_ok=True)
        shutil.copyfile(directory / RUN_TESTS, part / "tests" / RUN_TESTS)
        _script(part / "tests" / "test.sh", WRAPPER)
        if solution is not None:
            (part / "solution").mkdir()
            _script(part / "solution" / "solve.sh", solution)
        part.chmod(0o755)
        try:
            part.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was first
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _copy(source: Path, target: Path, without: frozenset[str] = frozenset()) -> None:
    def left_out(folder: str, names: list[str]) -> Iterator[str]:
        for name in names:
            if is_leftover(Path(folder, name)) or (Path(folder) == source and name in without):
                yield name

    shutil.copytree(source, target, symlinks=True, ignore=lambda folder, names: set(left_out(folder, names)))


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
    path.chmod(0o755)
