"""Byte code beside its source is no content; any other is."""

from __future__ import annotations

import compileall
from pathlib import Path

from harnesstrain.core.leftovers import is_leftover


def test_what_python_leaves_behind(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text("x = 1\n")
    assert compileall.compile_dir(tmp_path, quiet=1)
    assert compileall.compile_dir(tmp_path, quiet=1, optimize=1)
    cache = tmp_path / "__pycache__"
    assert len(list(cache.iterdir())) == 2
    assert is_leftover(cache)
    assert not is_leftover(tmp_path)


def test_byte_code_without_its_source_is_content(tmp_path: Path) -> None:
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    assert is_leftover(cache)
    (cache / "secret.cpython-311.pyc").write_bytes(b"x")
    assert not is_leftover(cache)
    (tmp_path / "secret.py").write_text("")
    assert is_leftover(cache)
    (cache / "notes.txt").write_text("x")
    assert not is_leftover(cache)


def test_a_link_of_that_name_is_content(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "__pycache__").symlink_to("other")
    assert not is_leftover(tmp_path / "__pycache__")
