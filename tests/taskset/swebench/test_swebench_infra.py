"""Signs of broken infrastructure, in output as programs really print it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harnesstrain.taskset.swebench import grade_log
from harnesstrain.taskset.swebench.infra import RULES, find_sign
from tests.taskset.swebench.conftest import make_log, make_row

PRINTED = (
    ("missing_tool", "/eval.sh: line 20: pytest: command not found"),
    ("missing_tool", "bash: line 1: git: command not found"),
    ("missing_tool", "sh: 1: tox: not found"),
    ("missing_tool", "/usr/bin/env: ‘python’: No such file or directory"),
    ("no_environment", "/eval.sh: line 3: /opt/miniconda3/bin/activate: No such file or directory"),
    ("no_environment", "EnvironmentNameNotFound: Could not find conda environment: testbed"),
    ("no_environment", "/eval.sh: line 4: cd: /testbed: No such file or directory"),
    ("no_network", "curl: (6) Could not resolve host: astral.sh"),
    (
        "no_network",
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<HTTPSConnection>: Failed "
        "to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/setuptools/",
    ),
    ("out_of_memory", "bash: fork: Cannot allocate memory"),
    ("out_of_memory", "OSError: [Errno 12] Cannot allocate memory"),
    ("out_of_memory", "MemoryError"),
    ("killed", "/eval.sh: line 22:   118 Killed                  pytest -rA t.py"),
    ("killed", "Killed"),
    ("no_space", "OSError: [Errno 28] No space left on device"),
    ("no_space", "error: unable to write file t.py: Disk quota exceeded"),
    ("read_only", "touch: cannot touch 't.py': Read-only file system"),
    ("container_gone", "Error response from daemon: container 3f is not running"),
    ("container_gone", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock."),
)


@pytest.mark.parametrize(("reason", "line"), PRINTED)
def test_signs_make_a_log_without_results_no_grade(reason: str, line: str) -> None:
    verdict = grade_log(make_row(), make_log(line, code=127))
    assert (verdict.status, verdict.resolved) == ("infra", None)
    assert verdict.infra is not None
    assert (verdict.infra.reason, verdict.infra.evidence) == (reason, line[:200])
    assert grade_log(make_row(), f"{line}\n").status == "infra"


def test_every_rule_has_output_it_was_made_for() -> None:
    assert {reason for reason, _ in PRINTED} == {rule.reason for rule in RULES}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo x > /dev/full", "no_space"),
        ("PATH=/nowhere; pytest -rA t.py", "missing_tool"),
        ("bash -c 'kill -9 $$'; true", "killed"),
        ("no-such-program-of-a-change", None),
        ("cat /no/such/file", None),
    ],
)
def test_what_a_shell_prints_here(command: str, reason: str | None, tmp_path: Path) -> None:
    script = tmp_path / "eval.sh"
    script.write_text(command + "\n")
    done = subprocess.run(
        ["bash", str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": os.environ["PATH"]},
    )
    found = find_sign(done.stdout + done.stderr)
    assert (found and found.reason) == reason, done.stderr


def test_a_sign_excuses_nothing_that_was_graded() -> None:
    for _, line in PRINTED:
        verdict = grade_log(make_row(), make_log("FAILED t.py::new - x", "PASSED t.py::old", line, code=1))
        assert (verdict.status, verdict.infra) == ("unresolved", None)
        assert verdict.suspect is not None
        solved = grade_log(make_row(), make_log("PASSED t.py::new", "PASSED t.py::old", line))
        assert (solved.status, solved.suspect) == ("resolved", None)


@pytest.mark.parametrize("prefix", ["+", "-", " ", "    ", "@@ -1 +1 @@ ", "+ "])
def test_text_of_a_change_is_no_sign(prefix: str) -> None:
    for _, line in PRINTED:
        verdict = grade_log(make_row(), make_log("ImportError: x", code=2, before=f"{prefix}{line}\n"))
        assert (verdict.status, verdict.reason) == ("unresolved", "nothing_ran")


def test_a_repository_file_that_is_gone_is_the_changes_own_fault() -> None:
    for line in (
        "/eval.sh: line 20: ./tests/runtests.py: No such file or directory",
        "/eval.sh: line 20: bin/test: No such file or directory",
        "ERROR: file or directory not found: tests/test_x.py",
    ):
        assert grade_log(make_row(), make_log(line, code=127)).status == "unresolved"


def test_time_and_forgery_are_never_excused() -> None:
    for log in (
        make_log("Killed", code=137, after=">>>>> Tests Timed Out\n"),
        make_log("Killed", code=137, before=make_log()),
    ):
        assert grade_log(make_row(), log).status == "unresolved"


def test_a_run_that_was_killed_is_no_grade_unless_a_test_failed_before() -> None:
    row = make_row(fail=("t.py::a", "t.py::b"))
    cut = grade_log(row, make_log("PASSED t.py::a", "PASSED t.py::old", code=137))
    assert cut.status == "infra"
    assert grade_log(row, make_log("PASSED t.py::a", "FAILED t.py::b", code=137)).status == "unresolved"


def test_an_install_without_network_explains_nothing_once_the_tests_began() -> None:
    noise = "ERROR: Temporary failure in name resolution\n"
    began = grade_log(make_row(), make_log("SyntaxError: invalid syntax", code=2, before=noise))
    assert (began.status, began.reason) == ("unresolved", "nothing_ran")
    assert grade_log(make_row(), noise).status == "infra"
    full = grade_log(make_row(), make_log("SyntaxError: x", code=2, before="x: No space left on device\n"))
    assert full.status == "infra"
