"""A tree that is sent by an agent nobody should trust."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.sandbox.landing import Landing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    found = Landing(tmp_path / "got")
    found.folder("")
    return found


@pytest.mark.parametrize(
    "send",
    [
        lambda landing: landing.file("../out", 0o644, [b"x"]),
        lambda landing: landing.file("/out", 0o644, [b"x"]),
        lambda landing: landing.file("no/such/folder", 0o644, [b"x"]),
        lambda landing: landing.file("sub//file", 0o644, [b"x"]),
        lambda landing: landing.file("..", 0o644, [b"x"]),
        lambda landing: landing.file("hop/file", 0o644, [b"x"]),
        lambda landing: landing.folder("hop/folder"),
        lambda landing: landing.link("hop/link", "x"),
        lambda landing: landing.folder(""),
        lambda landing: landing.file("a\0b", 0o644, [b"x"]),
    ],
)
def test_what_lies_elsewhere_ends_it_and_nothing_is_left(
    landing: Landing, tmp_path: Path, send: Callable[[Landing], None]
) -> None:
    (tmp_path / "victim").mkdir()
    landing.folder("sub")
    landing.link("hop", "../victim")
    send(landing)
    landing.file("sub/later", 0o644, [b"x"])
    with pytest.raises(SandboxFailure, match="no directory that it sent"):
        landing.finish()
    assert names(tmp_path) == ["victim"]
    assert names(tmp_path / "victim") == []


def test_a_link_that_leads_out_through_another_is_dropped(landing: Landing, tmp_path: Path) -> None:
    landing.folder("deep")
    landing.folder("deep/er")
    landing.link("deep/er/top", "../..")
    landing.link("sly", "deep/er/top/../secret")
    landing.link("fine", "deep/er/top/deep")
    (tmp_path / "secret").write_text("canary")
    fetched = landing.finish()
    assert fetched.left_out == ("sly",)
    assert names(tmp_path / "got") == ["deep", "fine"]


def test_a_file_written_twice_keeps_its_first_bytes(landing: Landing, tmp_path: Path) -> None:
    landing.link("name", "other")
    landing.file("name", 0o644, [b"x"])
    landing.file("other", 0o644, [b"first"])
    landing.file("other", 0o644, [b"second"])
    fetched = landing.finish()
    assert (tmp_path / "got" / "other").read_bytes() == b"first"
    assert fetched.left_out == ("name", "other")


def test_a_file_that_was_taken_back_is_gone(landing: Landing, tmp_path: Path) -> None:
    landing.file("shrunk", 0o644, [b"x", b"\0"])
    landing.lacking("shrunk")
    fetched = landing.finish()
    assert (fetched.files, fetched.left_out) == (0, ("shrunk",))
    assert names(tmp_path / "got") == []


def test_names_that_this_machine_cannot_hold_are_left_out_with_what_is_below(landing: Landing, tmp_path: Path) -> None:
    long = "x" * 300
    landing.folder(long)
    landing.file(f"{long}/inner", 0o644, [b"x"])
    landing.file("fine", 0o700, [b"x"])
    fetched = landing.finish()
    assert fetched.left_out == (long,)
    assert (tmp_path / "got" / "fine").stat().st_mode & 0o777 == 0o755


def test_no_more_than_a_hundred_names_are_kept(landing: Landing) -> None:
    for number in range(500):
        landing.lacking(f"pipe-{number}")
    assert len(landing.finish().left_out) == 100
