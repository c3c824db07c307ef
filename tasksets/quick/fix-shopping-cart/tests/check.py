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


need(text("test_cart.py") == (GIVEN / "test_cart.py").read_text().rstrip(), "test_cart.py was changed")
text("cart.py")
need(run("/app/test_cart.py") == "all tests passed", "the test fails")
more = """
from cart import shipping, subtotal, total
print(subtotal([]), subtotal([("a", 7, 3)]), subtotal([("a", 2, 5), ("b", 9, 2)]))
print(shipping(0), shipping(51), shipping(500))
print(total([("a", 10, 4)]), total([("a", 10, 5)]), total([("a", 10, 6)]))
"""
need(run("-c", more).splitlines() == ["0 21 28", "5 0 0", "45 50 60"], "other cases fail")
