"""The given test passes unchanged, and so do more cases."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
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
    """What a Python script prints; it must end by itself, with exit code 0.  Its time, memory and files are bounded."""
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-B", *argv],
            cwd=APP,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        need(process.returncode == 0, f"{argv} ended with exit code {process.returncode}")
        output.seek(0)
        return output.read().decode("utf-8").rstrip()


need(text("test_units.py") == (GIVEN / "test_units.py").read_text().rstrip(), "test_units.py was changed")
text("lengths.py"), text("weights.py")
need(run("/app/test_units.py") == "all tests passed", "the test fails")
more = """
from lengths import km_to_m, m_to_cm
from weights import g_to_kg, kg_to_g
print(km_to_m(0) == 0, km_to_m(12) == 12000, m_to_cm(7) == 700, kg_to_g(9) == 9000, g_to_kg(16000) == 16, g_to_kg(500) == 0.5)
"""
need(run("-c", more) == "True True True True True True", "other cases fail")
