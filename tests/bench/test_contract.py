"""Each measurement prints one JSON object of the agreed shape, measured afresh at the tiniest size."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from harnesstrain.core import confinement
from tests.bench.__main__ import measurements
from tests.bench.spent import exponent
from tests.bench.workload import Shape, command, observation

ROOT = Path(__file__).parents[2]
NAMES = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "docker32", "live-step", "tracing")


def test_every_measurement_is_tested_here() -> None:
    assert set(measurements()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_measurement_prints_one_object_and_nothing_else(name: str) -> None:
    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no jail for the harness: {why}")
    argv = [sys.executable, "-m", "tests.bench", name, "--json", "--scale", "tiny"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert list(found) == ["id", "value", "unit", "target", "met", "detail"]
    assert found["id"] == name
    assert found["met"] in (True, False, None)
    assert isinstance(found["target"], int | float)
    assert found["unit"]
    assert found["detail"]
    if found["value"] is None:
        assert found["met"] is None
        assert "not measured" in found["detail"]
    else:
        assert math.isfinite(found["value"])
        assert done.returncode == (1 if found["met"] is False else 0)


def test_an_unknown_measurement_is_refused() -> None:
    argv = [sys.executable, "-m", "tests.bench", "P99", "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no measurement P99" in done.stderr


@pytest.mark.parametrize(("power", "fixed"), [(1.0, 0.0), (1.0, 50.0), (1.5, 3.0), (2.0, 0.5)])
def test_the_power_of_growth_is_found_whatever_is_fixed(power: float, fixed: float) -> None:
    costs = tuple(fixed + 0.1 * size**power for size in (1, 4, 16))
    assert exponent((costs[0], costs[1], costs[2]), (1, 4, 16)) == pytest.approx(power, abs=0.011)


def test_texts_have_their_sizes_and_differ_in_noise_only() -> None:
    from harnesstrain.sandbox.scrub import scrub

    shape = Shape(tasks=1, steps=3)
    one, other = (observation(shape, "task-0000", 2, turn).encode() for turn in (1, 4001))
    assert one != other
    assert scrub(one) == scrub(other)
    assert abs(len(one) - shape.observation) < 60
    assert abs(len(command(shape, "task-0000", 2)) - shape.command) < 60
