"""The script is right for years of all kinds."""

import subprocess
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


def run(*argv):
    """What a Python script prints; it must end by itself, with exit code 0."""
    done = subprocess.run(
        [sys.executable, "-B", *argv], cwd=APP, stdin=subprocess.DEVNULL, capture_output=True, timeout=10
    )
    need(done.returncode == 0, f"{argv} ended with exit code {done.returncode}")
    return done.stdout.decode("utf-8").rstrip()


text("leap.py")
for year in (1900, 2000, 2023, 2024, 2100, 1600):
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    need(run("/app/leap.py", str(year)) == ("yes" if leap else "no"), f"wrong output for {year}")
