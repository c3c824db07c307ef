"""Search/replace edits: all or none, and never outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.stages.propose.estimators.edits import Edit, EditRefused, apply, parse

REPLY = """HYPOTHESIS: count better
FILE: a/b.py
<<<<<<< SEARCH
x = 1
=======
x = 2
>>>>>>> REPLACE

FILE: `new.txt`
<<<<<<< SEARCH
=======
hello
>>>>>>> REPLACE
"""


def test_edits_are_read_and_applied(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.py").write_text("x = 1\ny = x\n")
    apply(tmp_path, parse(REPLY))
    assert (tmp_path / "a/b.py").read_text() == "x = 2\ny = x\n"
    assert (tmp_path / "new.txt").read_text() == "hello\n"


def test_windows_line_ends_and_fences_are_understood() -> None:
    text = "FILE: a\r\n```python\r\n<<<<<<< SEARCH\r\nx\r\n=======\r\ny\r\n>>>>>>> REPLACE\r\n```\r\n"
    assert parse(text) == (Edit(path="a", search="x\n", replace="y\n"),)


@pytest.mark.parametrize(("before", "why"), [("y = 1\n", "does not stand"), ("x = 1\nx = 1\n", "stands 2 times")])
def test_a_search_part_stands_exactly_once(tmp_path: Path, before: str, why: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.py").write_text(before)
    with pytest.raises(EditRefused, match=why):
        apply(tmp_path, parse(REPLY))
    assert (tmp_path / "a/b.py").read_text() == before
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "../out", "a/../../out", "link/out"])
def test_no_edit_leaves_the_worktree(tmp_path: Path, path: str) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "link").symlink_to(tmp_path)
    with pytest.raises(EditRefused):
        apply(tree, (Edit(path=path, search="", replace="x"),))
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_there_is_not_overwritten_by_an_empty_search(tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("mine\n")
    with pytest.raises(EditRefused, match="not empty"):
        apply(tmp_path, (Edit(path="new.txt", search="", replace="x"),))


def test_line_ends_of_the_file_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "b.txt").write_bytes(b"one\r\ntwo\nthree\n")
    apply(tmp_path, (Edit(path="a.txt", search="two\n", replace="2\n3\n"),))
    apply(tmp_path, (Edit(path="b.txt", search="two\n", replace="2\n"),))
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\n2\r\n3\r\n"
    assert (tmp_path / "b.txt").read_bytes() == b"one\r\n2\nthree\n"
    assert parse("FILE: ./a\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE") == (
        Edit(path="a", search="", replace="x\n"),
    )
