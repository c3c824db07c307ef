"""The copy equals the file in the given archive."""

import sys
import tarfile
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


with tarfile.open(GIVEN / "archive.tar.gz") as archive:
    wanted = archive.extractfile("reports/2023/report-2023.txt").read().decode()
need(text("report-2023.txt") == wanted.rstrip(), "report-2023.txt has other text")
