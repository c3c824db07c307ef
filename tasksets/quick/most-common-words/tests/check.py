"""The words and counts are those of the given file."""

import collections
import re
import sys
from pathlib import Path

APP = Path("/app")
GIVEN = Path("/tests/given")


def need(condition, why):
    if not condition:
        print("not solved:", why)
        sys.exit(1)


def text(name):
    """The text of a regular file below /app; trailing blank space at its end does not count."""
    path = APP / name
    need(path.is_file() and path.resolve() == path, f"{path} is not a regular file")
    need(path.stat().st_size < 1_000_000, f"{path} is too large")
    return path.read_text(encoding="utf-8").rstrip()


words = re.findall(r"[a-z]+", (GIVEN / "story.txt").read_text().lower())
top = [f"{word} {count}" for word, count in collections.Counter(words).most_common(3)]
need(text("top3.txt").splitlines() == top, "top3.txt differs")
