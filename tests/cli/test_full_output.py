"""stdout that cannot be written is one line of error, whatever the command; files that cannot are, too."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.cli.styled import text_of
from harnesstrain.cli.watching import frame
from harnesstrain.stages.report.moment import Live
from harnesstrain.store import Store
from tests.project import Project

pytestmark = pytest.mark.local
FULL = Path("/dev/full")
SAID = "error: cannot write the output: No space left on device"


@pytest.mark.parametrize(
    "command",
    [
        *("report", "report --md", "report --json", "log", "log --json", "status", "show e1", "config", "--version"),
        *("export rollout", "export rollouts --csv -", "watch --once", "doctor --json", "report --help"),
    ],
)
def test_a_full_output(trained: Project, command: str) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            trained.argv(*command.split()),
            cwd=trained.root,
            env=trained.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    errors = [
        line for line in done.stderr.splitlines() if line.startswith(("error:", "bug:", "Traceback", "Exception"))
    ]
    assert (done.returncode, errors) == (6, [SAID]), done.stderr
    assert FULL.is_char_device()


@pytest.mark.parametrize("command", ["report", "report --html -", "report --json", "export rollout"])
def test_a_reader_that_left_is_no_error(trained: Project, command: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        trained.argv(*command.split()),
        cwd=trained.root,
        env=trained.environment(),
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_report_to_stdout_by_name(trained: Project) -> None:
    plain = trained.ht("report")
    for name in ("-", "/dev/stdout"):
        assert trained.ht("report", "-o", name) == plain


def test_a_report_into_a_folder(trained: Project) -> None:
    for words in (["-o", "."], ["-o", ".."], ["--html", "."]):
        ran = trained.ht("report", *words)
        assert ran.code == 2, ran.err
        assert ran.err == f"error: {words[1]} is a folder\nhint: name a file, new or to be replaced\n"


def test_a_report_onto_a_read_only_mount(trained: Project, tmp_path: Path) -> None:
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("mounting read-only needs root and a mount namespace")
    script = f'mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path} && exec "$@"'
    for words in (["report", "-o"], ["export", "runs", "--csv"]):
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", *trained.argv(*words, str(tmp_path / "r.csv"))],
            cwd=trained.root,
            env=trained.environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 6, done.stderr
        assert done.stderr.startswith(f"error: cannot write {tmp_path}/r.csv: Read-only file system\nhint: ")
        assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("missing", ["jinja2", "altair"])
def test_no_folder_is_left_without_the_extra(trained: Project, tmp_path: Path, missing: str) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / f"{missing}.py").write_text(f"raise ImportError('none', name='{missing}')\n")
    ran = trained.ht("report", "--full", str(tmp_path / "out"), PYTHONPATH=str(blocked))
    assert ran.code == 6, ran.err
    assert ran.err.startswith(f"error: {missing} is not installed\nhint: ")
    assert not (tmp_path / "out").exists()


def test_a_log_of_nothing(project: Callable[..., Project]) -> None:
    made = project()
    Store.open(made.root / ".ht", create=True).close()
    ran = made.ht("log")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "nothing was measured yet\nhint: `ht evaluate` measures the baseline\n"


def test_an_article(trained: Project) -> None:
    ran = trained.ht("show", "e1", "--transcript")
    assert ran.code == 2 and ran.err.startswith("error: an epoch has no transcript\n")


@pytest.mark.parametrize(("epochs", "said"), [(0, "0 epochs"), (1, "1 epoch"), (2, "2 epochs")])
def test_epochs_are_counted(epochs: int, said: str) -> None:
    live = Live(state="nothing", epoch=None, runs=(), verdicts=(), judged=0, holders=(), epochs=epochs, promoted=0)
    text = " ".join(text_of(one) for one in frame(live, width=80))
    assert (f"{said} so far, 0 promoted" in text) == (epochs > 0)
