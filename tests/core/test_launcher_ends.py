"""A starter that is killed at any instant of a start leaves nothing running."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import psutil
import pytest

from harnesstrain.core import confinement

pytestmark = pytest.mark.local
STARTER = """
import subprocess, sys, time
from harnesstrain.core.confinement import PROGRAMS, Confinement, launch_argv
argv = launch_argv(Confinement(command=("/bin/sleep", "1000"), env={"PATH": PROGRAMS}))
print("ready", flush=True)
sys.stdin.readline()
print(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE).pid, flush=True)
time.sleep(1000)
"""


def killed_after(seconds: float) -> list[str]:
    """What is left of a confinement whose starter is killed so long after it was started."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        starter.stdout.readline()
        starter.stdin.write("\n")
        starter.stdin.flush()
        launcher = psutil.Process(int(starter.stdout.readline()))
        time.sleep(seconds)
        starter.kill()
    _, alive = psutil.wait_procs([launcher], timeout=20)
    left = [one for process in alive for one in (process, *process.children(recursive=True))]
    names = [process.name() for process in left]
    for process in left:
        process.kill()
    return names


def test_nothing_is_left_of_a_start_that_was_interrupted() -> None:
    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"nothing can be confined: {why}")
    for _ in range(25):
        instant = random.uniform(0.0, 0.15)
        assert killed_after(instant) == [], f"killed after {instant:.3f} s"
