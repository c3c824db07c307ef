"""The addresses are those of the given file."""

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


found = re.findall(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", (GIVEN / "messages.txt").read_text())
need(text("emails.txt").splitlines() == sorted({address.lower() for address in found}), "emails.txt differs")
