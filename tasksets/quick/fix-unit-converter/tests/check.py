"""The given test passes unchanged, and so do more cases."""

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


need(text("test_units.py") == (GIVEN / "test_units.py").read_text().rstrip(), "test_units.py was changed")
text("lengths.py"), text("weights.py")
need(run("/app/test_units.py") == "all tests passed", "the test fails")
more = """
from lengths import km_to_m, m_to_cm
from weights import g_to_kg, kg_to_g
print(km_to_m(0) == 0, km_to_m(12) == 12000, m_to_cm(7) == 700, kg_to_g(9) == 9000, g_to_kg(16000) == 16, g_to_kg(500) == 0.5)
"""
need(run("-c", more) == "True True True True True True", "other cases fail")
