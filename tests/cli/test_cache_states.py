"""`ht cache states`: what sandboxes keep to go on from, over all projects."""

from __future__ import annotations

from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path

from harnesstrain.sandbox.states import States
from tests.cli.conftest import parsed
from tests.project import Project


def test_kept_states_are_counted_and_bounded(project: Callable[..., Project], tmp_path: Path) -> None:
    made = project()
    place = str(tmp_path / "cache")
    assert made.ht("cache", "states", XDG_CACHE_HOME=place).out == "0 states, 0 bytes\n"
    states = States(tmp_path / "cache" / "harnesstrain" / "states")

    def write(out: BufferedWriter) -> None:
        out.write(b"x" * 5000)

    for number in range(3):
        assert states.keep(f"{number}" * 64, write)
    assert made.ht("cache", "states", XDG_CACHE_HOME=place).out == "3 states, 24576 bytes\n"
    planned = made.ht("cache", "states", "--max-mb", "0.01", "-n", XDG_CACHE_HOME=place)
    assert (planned.code, planned.out) == (0, "2 states, 16384 bytes\n")
    ran = made.ht("cache", "states", "--max-mb", "0.01", XDG_CACHE_HOME=place)
    assert (ran.out, ran.err) == ("", "2 states, 16384 bytes removed\n")
    found = parsed(made.ht("cache", "states", "--json", XDG_CACHE_HOME=place))
    assert (found["entries"], found["bytes"], found["removed"]) == (1, 8192, None)
