"""The script counts down to 1 from several numbers."""

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


text("countdown.py")
for start in (3, 1, 8):
    wanted = [*(str(number) for number in range(start, 0, -1)), "liftoff"]
    need(run("/app/countdown.py", str(start)).splitlines() == wanted, f"wrong output for {start}")
