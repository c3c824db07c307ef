"""P7: processor time of `ht --help`: what every command costs before it does anything."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from tests.bench.result import Result
from tests.bench.scale import Scale

ID = "P7"
TARGET = 0.3


def measure(scale: Scale) -> Result:  # noqa: ARG001
    """Seconds of processor time; the median of nine."""
    spent = []
    for _ in range(10):
        before = _children()
        subprocess.run([sys.executable, "-m", "harnesstrain.cli.app", "--help"], check=True, stdout=subprocess.DEVNULL)
        spent.append(_children() - before)
    return Result.at_most(ID, statistics.median(spent[1:]), TARGET, "s CPU", "`ht --help`, median of 9")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
