"""The directories are there, one file has its line, the other is empty."""

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


for name in ("src", "docs", "tests"):
    need((APP / "project" / name).is_dir(), f"project/{name} is not a directory")
need(text("project/README.md") == "# Demo project", "README.md has other text")
init = APP / "project/src/__init__.py"
need(init.is_file() and init.stat().st_size == 0, "src/__init__.py is not an empty file")
