"""Long output goes through a pager on a terminal, and nowhere else; no pager loses it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.project import Project
from tests.storied import Story, tell


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """A short history."""
    return tell(Story(epochs=4, tasks=5, steps=3), tmp_path_factory.mktemp("told"), cache_folder)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A pager that says so and copies what it gets."""
    made = tmp_path / "my pager"
    made.write_text('#!/bin/sh\necho "PAGER $1"\ncat\necho END\n')
    made.chmod(0o755)
    return made


def test_a_pager_of_ones_own(told: Project, script: Path) -> None:
    terminal = Terminal(told, "report", lines=10, PAGER=f"'{script}' -x")
    assert terminal.end() == 0
    assert terminal.written.startswith("PAGER -x\r\n")
    assert terminal.written.endswith("END\r\n")
    assert "Lineage" in terminal.written


@pytest.mark.parametrize(
    ("argv", "lines", "more"),
    [
        (("report", "--no-pager"), 10, {}),
        (("report",), 400, {}),  # it fits
        (("report",), 10, {"TERM": "dumb"}),
        (("report", "--json"), 10, {}),
        (("report", "--md"), 10, {}),
    ],
)
def test_no_pager_where_none_is_wanted(
    told: Project, script: Path, argv: tuple[str, ...], lines: int, more: dict[str, str]
) -> None:
    terminal = Terminal(told, *argv, lines=lines, PAGER=f"'{script}'", **more)
    assert terminal.end() == 0
    assert "PAGER" not in terminal.written
    assert "ineage" in terminal.written


@pytest.mark.parametrize("pager", ["", "cat", "/nonexistent/pager", "false", "kill -9 $$", "'unbalanced"])
def test_a_pager_that_is_none_loses_nothing(told: Project, pager: str) -> None:
    command = f"sh -c '{pager}'" if "$$" in pager else pager
    terminal = Terminal(told, "report", lines=10, PAGER=command)
    assert terminal.end() == 0
    assert "What was measured" in terminal.written and "Lineage" in terminal.written


def test_leaving_it_early_is_no_failure(told: Project) -> None:
    terminal = Terminal(told, "log", lines=3, PAGER="head -n 1")
    assert terminal.end() == 0
    assert terminal.written.count("\n") == 1


def test_an_interrupt_is_the_pagers_own(told: Project, tmp_path: Path) -> None:
    waits = tmp_path / "waits"
    waits.write_text(
        "#!/bin/sh\ntrap 'echo INTERRUPTED' INT\ncat > /dev/null\necho READY\n"
        "read key < /dev/tty\necho AGAIN\nread key < /dev/tty\n"
    )
    waits.chmod(0o755)
    terminal = Terminal(told, "log", lines=3, PAGER=str(waits))
    terminal.until("READY")
    terminal.type("\x03")
    terminal.until("INTERRUPTED")
    terminal.type("\n\n")
    assert terminal.end() == 0


def test_a_terminating_signal_ends_both(told: Project, tmp_path: Path) -> None:
    waits = tmp_path / "waits"
    waits.write_text("#!/bin/sh\ncat > /dev/null\necho READY\nexec sleep 60\n")
    waits.chmod(0o755)
    terminal = Terminal(told, "log", lines=3, PAGER=str(waits))
    terminal.until("READY")
    terminal.signal(signal.SIGTERM)
    assert terminal.end() == 143


def test_the_exit_code_is_kept(told: Project, script: Path) -> None:
    with told.store() as store:
        epoch = next(one for one in store.epochs() if one.verdict and store.verdict(one.verdict).gained)
    pair = f"{(epoch.base_run or '')[:10]}..{(epoch.cand_run or '')[:10]}"
    terminal = Terminal(told, "diff", pair, "--exit-code", lines=3, PAGER=f"'{script}'")
    assert terminal.end() == 3
    assert "PAGER" in terminal.written and "they differ" in terminal.written


def test_colour_is_for_terminals_that_want_it(told: Project) -> None:
    with_colour = Terminal(told, "report", "--no-pager")
    without = Terminal(told, "report", "--no-pager", NO_COLOR="1")
    assert (with_colour.end(), without.end()) == (0, 0)
    assert "\x1b[" in with_colour.written and "\x1b" not in without.written
    assert "\x1b" not in told.ht("report").out


@pytest.mark.parametrize("columns", [80, 40])
def test_nothing_is_wider_than_the_terminal(told: Project, columns: int) -> None:
    for argv in (("report",), ("log",)):
        terminal = Terminal(told, *argv, "--no-pager", columns=columns, NO_COLOR="1")
        assert terminal.end() == 0
        lines = terminal.written.replace("\r\n", "\n").split("\n")
        assert [line for line in lines if len(line) > columns] == []
