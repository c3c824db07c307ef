"""The average is that of the given rows."""

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


with open(GIVEN / "weather.csv", newline="") as file:
    values = [int(row["temperature"]) for row in csv.DictReader(file) if row["city"] == "Rome"]
need(text("average.txt") == f"{sum(values) / len(values):.1f}", "average.txt has another value")
