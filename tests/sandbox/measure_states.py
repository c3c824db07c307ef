"""What keeping and restoring states costs: `python -m tests.sandbox.measure_states [ROUNDS]`.

Interleaved with plain opens, so that a busy machine slows both alike.  Milliseconds, the median of the rounds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.local import LocalSandbox

ENVIRONMENT = Environment(workdir="/app")
CASES = {
    "20 files, 2 MB": "for n in $(seq 20); do head -c 100000 /dev/urandom > f$n; done",
    "2000 files": "for n in $(seq 2000); do echo $n > f$n; done",
    "100 MB": "head -c 100000000 /dev/urandom > big",
}
COLUMNS = ("seal", "state", "plain open", "open at")


def milliseconds(action: Callable[[], object]) -> float:
    """How long it took."""
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1e3


def opened(sandbox: LocalSandbox, at: str | None) -> None:
    """Start, run one command, end."""
    with contextlib.closing(sandbox.open(ENVIRONMENT, at=at)) as session:
        assert session.run("true").exit_code == 0


def measure(sandbox: LocalSandbox, command: str, rounds: int) -> list[float]:
    """Median of each column."""
    found: list[list[float]] = [[] for _ in COLUMNS]
    with contextlib.closing(sandbox.open(ENVIRONMENT)) as session:
        session.run(command)
        for _ in range(rounds):
            key = secrets.token_hex(32)
            found[0].append(milliseconds(lambda key=key: session.seal(key)))  # type: ignore[misc]
            assert sandbox.sealed([key]) == key
            found[1].append(milliseconds(session.state))
            found[2].append(milliseconds(lambda: opened(sandbox, None)))
            found[3].append(milliseconds(lambda key=key: opened(sandbox, key)))  # type: ignore[misc]
            sandbox.states.drop(key)
    return [statistics.median(column) for column in found]


def main(rounds: int) -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(LocalSandbox(cache_dir=Path(folder))) as sandbox:
        opened(sandbox, None)
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, {rounds} rounds, ms")
        print(f"{'':<16}" + "".join(f"{name:>12}" for name in COLUMNS))
        for name, command in CASES.items():
            print(f"{name:<16}" + "".join(f"{value:>12.1f}" for value in measure(sandbox, command, rounds)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
