"""The sums are those of the given file, in order."""

import csv
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


sums = {}
with open(GIVEN / "sales.csv", newline="") as file:
    for row in csv.DictReader(file):
        sums[row["region"]] = sums.get(row["region"], 0) + int(row["units"])
wanted = ["region,units", *(f"{region},{sums[region]}" for region in sorted(sums))]
need(text("by_region.csv").splitlines() == wanted, "by_region.csv differs")
