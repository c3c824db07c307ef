"""Standard streams that are closed or cannot hold every character, and a working directory that is gone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.cli import output
from tests.project import Project, Ran

pytestmark = pytest.mark.local
Make = Callable[..., Project]


def redirected(project: Project, words: str, how: str, **env: str) -> Ran:
    """Run a command as a shell does with the redirection `how`."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {how}', "sh", *project.argv(*words.split())],
        cwd=project.root,
        env=project.environment(**env),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        *(
            "log",
            "report",
            "report --json",
            "evaluate -n",
            "epoch -n",
            "watch --once",
            "--version",
            "--help",
            "report -h",
        ),
        *("export runs --csv -", "export rollout", "rev-parse HEAD", "show e1"),
    ],
)
def test_a_closed_stdout_takes_everything(trained: Project, words: str) -> None:
    ran = redirected(trained, words, ">&-")
    assert (ran.code, ran.out) == (0, ""), ran.err
    assert "Traceback" not in ran.err and "bug:" not in ran.err


def test_what_is_asked_for_is_done_whatever_is_closed(trained: Project, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert redirected(trained, f"report --html {page}", "<&- >&- 2>&-").code == 0
    assert page.read_text().rstrip().endswith("</html>")
    assert redirected(trained, "show nothing", ">&- 2>&-").code == 2


def test_a_promotion_that_nobody_reads_is_one(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one"})
    before = made.git("rev-parse", "HEAD")
    assert made.ht("evaluate").code == 0
    candidate = made.ht("propose").out.strip()
    assert made.ht("evaluate", candidate).code == 0
    ran = redirected(made, f"promote {candidate}", ">&-")
    assert ran.code == 0, ran.err
    assert made.git("rev-parse", "HEAD~1") == before


@pytest.mark.parametrize("words", ["evaluate -", "promote -", "rev-parse -"])
def test_a_closed_stdin_is_no_list_of_ids(trained: Project, words: str) -> None:
    ran = redirected(trained, words, "<&-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: cannot read stdin: it is closed\nhint: pipe the ids into it")


def test_bytes_on_stdin_that_are_no_text(trained: Project, tmp_path: Path) -> None:
    given = tmp_path / "ids"
    given.write_bytes(b"caf\xe9\n")
    ran = redirected(trained, "rev-parse -", f"< {given}")
    assert ran.code == 2
    assert "no commit is called" in ran.err


@pytest.mark.parametrize("words", ["log", "evaluate", "status --json", "init there", "--version"])
def test_a_working_directory_that_is_gone(trained: Project, tmp_path: Path, words: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir ../gone && exec "$@"', "sh", *trained.argv(*words.split())],
        cwd=gone,
        env=trained.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: the working directory is gone"), done.stderr
    assert "hint: `cd`" in done.stderr and "Traceback" not in done.stderr
    assert "--json" not in words or json.loads(done.stdout)["error"]["kind"] == "usage"


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_characters_that_stdout_lacks_are_replaced(trained: Project, env: dict[str, str]) -> None:
    for words in ("log", "report", "show e1"):
        ran = redirected(trained, words, "", **env)
        assert ran.code == 0, ran.err
    assert "promoted" in redirected(trained, "log", "", **env).out
    plain = json.loads(redirected(trained, "report --json", "").out)
    assert json.loads(redirected(trained, "report --json", "", **env).out)["epochs"] == plain["epochs"]


def test_a_file_name_that_is_no_text_is_printed_as_it_is() -> None:
    how = output._FORGIVING["surrogateescape"]
    assert "caf\udce9".encode("utf-8", how) == b"caf\xe9"
    assert "a\ud800\u25b2".encode("ascii", how) == b"a??"
