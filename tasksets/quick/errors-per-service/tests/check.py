"""The counts are those of the given file, highest first."""

import collections
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


rows = [line.split() for line in (GIVEN / "events.log").read_text().splitlines()]
counts = collections.Counter(row[1] for row in rows if row[2] == "ERROR")
wanted = [f"{service} {count}" for service, count in counts.most_common()]
need(text("counts.txt").splitlines() == wanted, "counts.txt differs")
