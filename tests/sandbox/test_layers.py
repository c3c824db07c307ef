"""Sealed layers: one build per digest, whole or not at all."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harnesstrain.core.errors import Prerequisite
from harnesstrain.sandbox.layers import Layers, exclusive, remove


def test_a_layer_is_built_once_however_many_ask(tmp_path: Path) -> None:
    layers = Layers(tmp_path / "layers")
    built: list[Path] = []

    def build(part: Path) -> dict[str, str]:
        built.append(part)
        time.sleep(0.05)
        (part / "fs").mkdir()
        return {"who": "me"}

    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(layers.obtain("d" * 64, build))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert set(found) == {tmp_path / "layers" / ("d" * 64)}
    assert layers.facts(found[0]) == {"who": "me"}


def test_a_failed_build_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    layers = Layers(tmp_path)

    def fail(part: Path) -> dict[str, str]:
        (part / "half").write_text("x")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        layers.obtain("d", fail)
    assert layers.find("d") is None
    assert not list(tmp_path.glob("part-*"))
    assert layers.obtain("d", lambda part: {}) == layers.find("d")


def test_processes_wait_for_each_other(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from harnesstrain.sandbox.layers import exclusive\n"
        "with exclusive(Path(sys.argv[1]), 'x'): print('in', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout and holder.stdin
    assert holder.stdout.readline() == "in\n"
    entered = threading.Event()

    def enter() -> None:
        with exclusive(tmp_path, "x"):
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.2)
    holder.kill()
    holder.communicate()
    thread.join(10)
    assert entered.is_set()


def test_a_sweep_removes_only_what_dead_builders_left(tmp_path: Path) -> None:
    layers = Layers(tmp_path)
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead = tmp_path / f"part-{int(done.stdout)}-abcd"
    (dead / "work/work").mkdir(parents=True)
    (dead / "work/work").chmod(0)
    mine = tmp_path / "part-1-abcd"
    mine.mkdir()
    assert layers.sweep() == 1
    assert not dead.exists()
    assert mine.exists()


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Prerequisite, match="file"):
        Layers(tmp_path / "file" / "layers").obtain("d", lambda part: {})


def test_removing_a_tree_never_follows_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/link").symlink_to(outside)
    remove(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    assert outside.stat().st_mode & 0o777 == 0o500
