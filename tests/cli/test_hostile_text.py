"""Text of models, tasks, harnesses and estimators never reaches a terminal as anything but text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.project import Project
from tests.storied import Story, tell

HOSTILE = (
    "\x1b[5mBLINK\x1b[38;5;199mPINK"  # styles
    "\x1b]52;c;ZWNobyBwd25lZA==\x07"  # the clipboard
    "\x1b]8;;http://example.org\x1b\\LINK\x1b]8;;\x1b\\"  # a link under other words
    "\x1b]0;TITLE\x07\x1bc\x1b[2J\x1b[6n\x1b[>c\x1bP+q544e\x1b\\"  # title, reset, clearing, questions it answers
    "\x9b31mC1\x9d0;C1\x9c\u202eoverride\u2066isolate\u2069\x08\x08\x08\x7f\r" + "w" * 3000  # C1, direction, backspace
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """A history in which everybody says hostile things."""
    return tell(Story(epochs=5, tasks=6, steps=4, hostile=HOSTILE), tmp_path_factory.mktemp("hostile"), cache_folder)


def names(told: Project) -> list[str]:
    """One id of every kind in the store, and an epoch."""
    kinds = (
        "run",
        "rollout",
        "candidate",
        "verdict",
        "promotion",
        "memo",
        "certificate",
        "regime",
        "panel",
        "endpoint",
    )
    with told.store() as store:
        newest = [[entry.id for entry in store.entries(kind)][-1:] for kind in kinds]
    return ["e2", *(id for ids in newest for id in ids)]


def shown(told: Project, *argv: str, columns: int = 100) -> Terminal:
    terminal = Terminal(told, *argv, columns=columns, PAGER="cat")
    assert terminal.end() == 0, terminal.written
    return terminal


@pytest.mark.parametrize("columns", [130, 40])
def test_what_happened(told: Project, columns: int) -> None:
    for argv in (("log",), ("report",), ("status",), ("watch", "--once")):
        terminal = shown(told, *argv, columns=columns)
        assert terminal.strays == [], argv
        assert "PINK" in terminal.written or argv[0] in ("status", "watch")


def test_every_kind_of_record(told: Project) -> None:
    for name in names(told):
        terminal = shown(told, "show", name)
        assert terminal.strays == [], name


@pytest.mark.parametrize("columns", [130, 60])
def test_where_two_runs_part(told: Project, columns: int) -> None:
    with told.store() as store:
        epoch = next(one for one in store.epochs() if one.verdict and store.verdict(one.verdict).gained)
        task = store.verdict(epoch.verdict or "").gained[0].task
        pair = f"{(epoch.base_run or '')[:10]}..{(epoch.cand_run or '')[:10]}"
    for more in ((), ("--task", task), ("--task", task, "--full")):
        terminal = shown(told, "diff", pair, *more, columns=columns)
        assert terminal.strays == [], more
        assert not more or "PINK" in terminal.written


def test_the_whole_screen(told: Project) -> None:
    terminal = Terminal(told, "watch", "--interval", "0.2", columns=90, lines=30)
    terminal.until("PINK")
    terminal.type("q")
    assert terminal.end() == 0
    assert terminal.strays == []


def test_a_pipe_is_clean_too(told: Project) -> None:
    for argv in (("log",), ("report",), ("watch", "--once"), ("show", "e2")):
        ran = told.ht(*argv)
        assert ran.code == 0
        assert "\x1b" not in ran.out and "\u202e" not in ran.out and "\x9b" not in ran.out


@pytest.mark.parametrize(
    "part", ["\x1b[5m", "\x1b[38;5;199m", "\x1b]52;c;eA==\x07", "\x9b31m", "\u202e", "\x08", "\x1bc"]
)
def test_a_stray_is_seen(part: str) -> None:
    terminal = object.__new__(Terminal)
    terminal.written = f"before \x1b[1mbold\x1b[0m {part} after\r\n"
    assert terminal.strays
