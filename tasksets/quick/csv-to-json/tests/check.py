"""The list has the given rows, with ages as numbers."""

import csv
import json
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


with open(GIVEN / "people.csv", newline="") as file:
    wanted = [{**row, "age": int(row["age"])} for row in csv.DictReader(file)]
found = json.loads(text("people.json"))
need(found == wanted, "people.json differs")
need(all(type(row["age"]) is int for row in found), "an age is not a whole number")
