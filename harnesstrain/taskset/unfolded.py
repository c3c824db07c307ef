"""The folder of laid-out tasks in the user's cache: which of them are in use, and which go."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

UNUSED_DAYS = 30
"""Parts that nobody loaded for so long are removed."""


def touch(place: Path) -> None:
    """Note that a laid-out task is in use."""
    try:
        os.utime(place)
    except OSError:  # a cache that can only be read
        return


def swept(folder: Path) -> None:
    """Remove parts that nobody uses: those of an ended process after a day, others after UNUSED_DAYS."""
    now = time.time()
    for path in folder.iterdir():
        age = now - path.lstat().st_mtime
        if age > (1 if path.name.startswith(".part-") else UNUSED_DAYS) * 86_400:
            shutil.rmtree(path, ignore_errors=True)
