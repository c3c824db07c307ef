"""Directories that are gone when whoever made them is."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.scratch import sweep_temporary, temporary

MAKES = """\
import sys
from harnesstrain.core.scratch import temporary
with temporary("logs") as place:
    (place / "file").write_text("x")
    print(place, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_it_is_removed_at_the_end(own_place: Path) -> None:
    with temporary("logs") as place:
        assert place.is_relative_to(own_place)
        (place / "file").write_text("x")
        assert place.parent.stat().st_mode & 0o777 == 0o700
    assert not place.exists()
    assert sweep_temporary() == 0
    assert list(own_place.iterdir()) == []


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_stays(own_place: Path) -> None:
    argv = [sys.executable, "-c", MAKES]
    both = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    dead, living = both
    assert dead.stdout is not None and living.stdout is not None
    left, used = (Path(one.stdout.readline().strip()) for one in both if one.stdout)
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    assert left.exists()
    assert sweep_temporary() == 1
    assert not left.exists()
    assert (used / "file").exists()
    living.communicate("")
    assert sweep_temporary() == 0
    assert list(own_place.iterdir()) == []


def test_a_place_that_somebody_else_made_is_not_used(own_place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    import os

    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (own_place / f"harnesstrain-{os.getuid()}").symlink_to(elsewhere)
    with pytest.raises(Prerequisite, match="not a directory of your own"), temporary("logs"):
        pass
    assert list(elsewhere.iterdir()) == []
