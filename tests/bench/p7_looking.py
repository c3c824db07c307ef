"""P7: what looking costs: `ht --help`, and log, status, report and the HTML page over a whole history.

The history is made without a model (tests/storied): 30 epochs over 40 tasks of 100 steps.  Each figure is processor
time of the whole command as a share of its own target; the largest share is the result.
"""

from __future__ import annotations

import re
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harnesstrain.core.records.base import Record
from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.storied import Story, tell

ID = "P7"
PAGE, LARGEST = "report.html", 5_000_000
"""Bytes that the page may have."""
TARGETS = {("--help",): 0.3, ("log",): 1.0, ("status",): 1.0, ("report",): 3.0, ("report", "--html", PAGE): 10.0}
"""Seconds of processor time, by command."""
TELLING = """\
import atexit, runpy, sys
atexit.register(lambda: sys.stderr.write(open("/proc/self/status").read()))
runpy.run_module("harnesstrain.cli.app", run_name="__main__", alter_sys=True)
"""
"""`ht`, which says at its end how much memory it had: what a parent is told counts the parent's too."""


class _Cost(Record):
    cpu: float
    """Seconds."""
    memory: float
    """Most resident memory, MB."""


def measure(scale: Scale) -> Result:
    """The largest share of a target; medians over the repeats, after one run that fills the page cache."""
    told, shares = [], []
    with _history(scale) as root:
        for command, target in TARGETS.items():
            found = [_cost(root, command) for _ in range(scale.repeats + 1)][1:]
            cpu = statistics.median(one.cpu for one in found)
            memory = max(one.memory for one in found)
            shares.append(cpu / target)
            told.append(f"`ht {' '.join(command)}` {cpu:.2f} of {target:g} s CPU, {memory:.0f} MB")
        size = (root / PAGE).stat().st_size
    what = f"{scale.history} epochs x {scale.tasks} tasks x {scale.steps} steps"
    detail = f"{what}: {'; '.join(told)}; the page {size / 1e6:.2f} of {LARGEST / 1e6:g} MB"
    return Result.at_most(ID, max(shares), 1.0, "of the target", detail, also=size <= LARGEST)


@contextmanager
def _history(scale: Scale) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ht-history-") as place:
        story = Story(epochs=scale.history, tasks=scale.tasks, holdout=2, steps=scale.steps, even=True)
        yield tell(story, Path(place), Path(place) / "cache").root


def _cost(root: Path, command: tuple[str, ...]) -> _Cost:
    before = _children()
    argv = [sys.executable, "-c", TELLING, *command]
    done = subprocess.run(argv, cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = re.findall(r"VmHWM:\s+(\d+) kB", done.stderr)[-1]
    return _Cost(cpu=_children() - before, memory=int(peak) / 1024)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
