"""The .conf files differ in the host name only, others not at all."""

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


for path in (GIVEN / "etc").rglob("*"):
    if path.is_file():
        wanted = path.read_text().rstrip()
        if path.suffix == ".conf":
            wanted = wanted.replace("db1.example.net", "db7.example.net")
        name = path.relative_to(GIVEN).as_posix()
        need(text(name) == wanted, f"{name} differs")
