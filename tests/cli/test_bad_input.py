"""Bad input: one line, a hint and the right exit code, or a recorded outcome.  Nothing lost, nothing left running."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harnesstrain.core.records.rollout import Outcome
from tests.project import Project, Ran, make_project

pytestmark = pytest.mark.local
Make = Callable[..., Project]


def refused(ran: Ran, code: int, why: str, hint: str) -> None:
    """One line that says what happened, a hint, an exit code, nothing on stdout."""
    assert ran.code == code, ran.err
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if not line.startswith(("note: ", "  waiting for the model"))]
    assert lines[0].startswith("error: "), ran.err
    assert why in lines[0]
    assert lines[-1].startswith("hint: "), ran.err
    assert hint in lines[-1]
    assert "Traceback" not in ran.err


def edited(project: Project, name: str, old: str, new: str) -> None:
    """Replace text in a file of the project."""
    path = project.root / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# --- settings


def test_an_unknown_key(project: Make) -> None:
    made = project(settings="\n[measure]\njbos = 3\n")
    refused(made.ht("evaluate"), 2, "unknown setting 'measure.jbos'", "did you mean 'measure.jobs'?")
    assert "ht.toml" in made.ht("evaluate").err


def test_values_that_cannot_be(project: Make) -> None:
    made = project()
    refused(made.ht("evaluate", "--set", "measure.jobs=many"), 2, "measure.jobs", "`ht config` explains measure.jobs")
    refused(made.ht("evaluate", HT_JOBS="0"), 2, "HT_JOBS: measure.jobs", "`ht config` explains")
    refused(made.ht("evaluate", "--progress", "loud"), 2, "--progress is one of auto, bar, plain, none", "")
    refused(made.ht("epoch", "--max-time", "soon"), 2, "'soon' is no duration", "write e.g. 90s")
    refused(made.ht("evaluate", "--split", "trian"), 2, "no split 'trian'", "train, holdout, sealed")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["evaluate", "--panel", ""], "--panel is given an empty value"),
        (["evaluate", "--split="], "--split is given an empty value"),
        (["export", "--csv", ""], "--csv is given an empty value"),
        (["evaluate", "-p", "", "--json"], "-p is given an empty value"),
        (["show", ""], "an argument is empty"),
        (["evaluate", "--fresh", "x", ""], "an argument is empty"),
    ],
)
def test_an_empty_word_is_a_shell_variable_that_is_not_set(trained: Project, words: list[str], what: str) -> None:
    ran = trained.ht(*words)
    assert ran.code == 2
    assert f"error: {what}" in ran.err and "hint: leave it out" in ran.err
    assert not ran.out or "--json" in words
    assert not trained.git("status", "--porcelain")


@pytest.mark.parametrize(
    "words",
    [
        *("cache gc --max-mb inf", "cache gc --max-mb nan", "cache gc --max-mb -1", "cache gc --max-mb 1e15"),
        *("cache states -n --max-mb inf", "cache states -n --max-mb nan", "evaluate -n --seeds 99999999999"),
        *("serve-llm -n --wait inf", "certify model -n --max-running 99999999999"),
    ],
)
def test_a_number_that_nothing_can_count_to(trained: Project, words: str) -> None:
    refused(trained.ht(*words.split()), 2, f"invalid value for '{words.split()[-2]}'", "--help")


@pytest.mark.parametrize("words", ["show", "rev-parse", "evaluate", "export", "report", "", "tasks list"])
def test_an_endless_word_is_cut_where_it_is_told(trained: Project, words: str) -> None:
    ran = trained.ht(*words.split(), "q" * 5000)
    assert ran.code == 2
    assert len(ran.err) < 700 and f"{'q' * 30}…" in ran.err


@pytest.mark.parametrize("words", ["init", "export runs --csv", "import harbor", "cache export", "serve-llm --config"])
def test_a_path_that_no_system_takes(trained: Project, words: str) -> None:
    long = "x" * 300
    refused(trained.ht(*words.split(), long), 2, f"{long}: File name too long", "check the path")


def test_a_setting_or_a_file_that_is_wrong_is_said_in_words(trained: Project) -> None:
    folder = trained.ht("status", "--config", ".")
    assert folder.err.startswith("error: . is a folder\nhint: give --config an existing ht.toml"), folder.err
    assert trained.ht("evaluate", "-n", "--set", "panel.split=").err.startswith("error: panel.split is empty\n")


def test_names_of_plugins_that_are_not_there(project: Make) -> None:
    made = project()
    refused(made.ht("propose", "--estimator", "ptaches"), 2, "no 'ptaches' among estimators", "did you mean 'patches'?")
    refused(made.ht("epoch", "--estimator", "no.such:Thing"), 2, "cannot load 'no.such:Thing'", "module:Class")
    refused(made.ht("evaluate", HT_SANDBOX="lcoal"), 2, "lcoal", "local")


def test_no_project(project: Make, tmp_path: Path) -> None:
    made = project()
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(made.ht("evaluate", cwd=empty), 2, "is not in a git repository", "`ht init DIR`")
    refused(made.ht("log", cwd=empty), 6, "no store at", "`ht init`")
    refused(made.ht("log"), 6, "no store at", "`ht evaluate` records the first run")
    refused(made.ht("init", str(made.root)), 2, "is not an empty directory", "choose a new directory")
    refused(made.ht("evaluate", "--config", "gone.toml"), 2, "no such file: gone.toml", "existing ht.toml")


# --- model and sandbox


def test_a_missing_model_server(project: Make) -> None:
    made = project()
    ran = made.ht("evaluate", HT_LLM_ENGINE="external", HT_LLM_URL="http://127.0.0.1:9/v1")
    refused(ran, 6, "127.0.0.1:9", "`ht serve-llm --detach`")
    ran = made.ht("evaluate", HT_LLM_ENGINE="external")
    refused(ran, 2, "engine 'external' needs [llm] url", "HT_LLM_URL")
    ran = made.ht("evaluate", HT_LLM_SCRIPT="gone.jsonl")
    refused(ran, 2, "gone.jsonl' cannot be read", "")
    made.rules("{not json}\n")
    refused(made.ht("evaluate"), 2, "rules.jsonl:1: not JSON", "")
    assert made.ht("log").err.startswith("error: no store") or made.ht("log").code == 0


def test_a_sandbox_that_cannot_be_had(project: Make) -> None:
    made = project()
    refused(made.ht("evaluate", HT_SANDBOX="process"), 6, "'process' does not isolate", "--allow-unisolated")
    docker = made.ht("evaluate", HT_SANDBOX="docker", DOCKER_HOST="unix:///nonexistent.sock")
    refused(docker, 6, "", "")


def test_an_unisolated_sandbox_is_taken_when_accepted_and_says_so(project: Make) -> None:
    made = project(tasks=("two",))
    ran = made.ht("evaluate", "--allow-unisolated", HT_SANDBOX="process")
    assert ran.code == 0, ran.err
    with made.store() as store:
        (run,) = store.runs()
        assert [rollout.isolated for rollout in store.rollouts(run.id)] == [False]


# --- store


def test_a_schema_of_a_newer_version(project: Make) -> None:
    made = project()
    assert made.ht("evaluate").code == 0
    with sqlite3.connect(made.root / ".ht" / "store.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'ffff0000'")
    database.close()
    for argv in (("evaluate",), ("log",), ("epoch",)):
        refused(made.ht(*argv), 6, "has schema ffff0000, this harnesstrain knows", "upgrade harnesstrain")
    check = made.ht("db", "check")
    assert (check.code, check.out.split(":")[0]) == (6, "newer")


def test_a_store_that_is_none(project: Make) -> None:
    made = project()
    assert made.ht("evaluate").code == 0
    (made.root / ".ht" / "store.db").write_bytes(b"this is no database" * 1000)
    for name in ("store.db-wal", "store.db-shm"):
        (made.root / ".ht" / name).unlink(missing_ok=True)
    ran = made.ht("log")
    assert (ran.code, ran.out) == (1, "")
    assert "Traceback" not in ran.err
    assert ran.err.startswith("error: ")
    assert "hint: " in ran.err


def test_a_cache_that_is_none_is_put_aside(project: Make) -> None:
    made = project()
    run = made.ht("evaluate").out
    cache = made.root / ".ht" / "cache.db"
    cache.write_bytes(b"garbage" * 5000)
    refused(made.ht("cache", "stats"), 1, "file is not a database", "delete ")
    ran = made.ht("evaluate", "--fresh", "again")
    assert ran.code == 0, ran.err
    assert ran.out != run
    assert "made anew, the old one is cache.db.damaged" in ran.err
    with made.store() as store:
        one, two = (sorted(r.measurement for r in store.rollouts(run.id)) for run in store.runs())
        assert one == two


def test_a_damaged_trace_is_an_error_where_it_is_read(project: Make) -> None:
    made = project()
    run = made.ht("evaluate").out.strip()
    (trace,) = (made.root / ".ht" / "traces").rglob("*.parquet")
    trace.write_bytes(trace.read_bytes()[:-100])
    ran = made.ht("cat-trace", f"{run[:8]}:two")
    assert (ran.code, ran.out) == (1, "")
    assert "hint: " in ran.err
    assert made.ht("log").code == 0
    found = made.ht("fsck", "--exit-code")
    assert found.code == 3
    assert str(trace.name) in found.out


# --- tasks and panels


def test_tasks_that_cannot_be_read(project: Make) -> None:
    made = project()
    task = made.root / "tasks" / "one"
    saved = made.root.parent / "saved"
    shutil.copytree(task, saved)

    def again() -> None:
        shutil.rmtree(task)
        shutil.copytree(saved, task)

    (task / "task.toml").write_text("schema_version = \n")
    refused(made.ht("evaluate"), 2, "task.toml:1", "")
    again()
    (task / "tests" / "test.sh").unlink()
    refused(made.ht("evaluate"), 2, "tests/test.sh", "")
    again()
    (task / "instruction.md").write_bytes(b"caf\xe9\n")
    refused(made.ht("evaluate"), 2, "not UTF-8", "")
    again()
    shutil.rmtree(task)
    refused(made.ht("evaluate"), 2, "'one'", "")


def test_an_empty_panel(project: Make) -> None:
    made = project()
    refused(made.ht("evaluate", "--split", "holdout"), 2, "no task is left in split 'holdout'", "`ht tasks list`")
    refused(made.ht("evaluate", "--include", "z*"), 2, "'z*' matches no task", "`ht tasks list`")
    edited(made, "panel.toml", 'train = ["one", "two", "three"]', "train = []")
    refused(made.ht("evaluate"), 2, "", "")
    refused(made.ht("evaluate", "--panel", "nope"), 2, "nope", "")


# --- candidates


def test_proposals_that_are_no_candidates_are_recorded(project: Make) -> None:
    made = project()
    reasons = {
        "01-outside.patch": "outside",
        "02-fails.patch": "its tests fail: 1 test failed: agent/fail",
        "03-does-not-apply.patch": "does not apply",
    }
    made.patch("01-outside", "elsewhere.py")
    made.patch("02-fails", "agent/fail")
    broken = made.patch("03-does-not-apply", "agent/x")
    text = broken.read_text().replace("new file mode 100644\n", "").replace("/dev/null", "a/agent/main.py")
    broken.write_text(text.replace("b/agent/x", "b/agent/main.py").replace("a/agent/x", "a/agent/main.py"))
    for why in reasons.values():
        ran = made.ht("propose")
        assert (ran.code, ran.out) == (4, "")
        assert why in ran.err
        assert "hint: `ht show" in ran.err
    ran = made.ht("propose")
    assert (ran.code, "nothing to propose" in ran.err) == (4, True)
    assert "hint: add a *.patch file to patches/" in ran.err
    with made.store() as store:
        assert [c.status.value for c in store.candidates()] == ["invalid_candidate"] * 3 + ["no_candidate"]
        assert all(c.reason for c in store.candidates())
    loop = made.ht("epoch", "--n", "5")
    assert loop.code == 4
    assert "2 proposals in a row gave no candidate" in loop.err
    assert made.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("import sys\nsys.exit(3)\n", "harness exited 3"),
        ("print('not a message')\n", "not JSON"),
        ("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        os._exit(7)\n", ""),
        ("import sys\nsys.stdout.write('x' * 50_000_000)\n", "a line of more than"),
    ],
    ids=["exits", "garbles", "forks", "floods"],
)
def test_a_harness_that_misbehaves_is_measured_as_that(project: Make, program: str, detail: str) -> None:
    made = project(tasks=("one",))
    (made.root / "agent" / "main.py").write_text(program)
    made.git("commit", "-qam", "Break it")
    ran = made.ht("evaluate")
    assert ran.code == 0, ran.err
    with made.store() as store:
        (run,) = store.runs()
        (rollout,) = store.rollouts(run.id)
        assert rollout.outcome is Outcome.POLICY_CRASH
        assert detail in rollout.detail


# --- the repo


def test_a_dirty_worktree_is_said_measured_without_and_left_alone(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one"})
    edited(made, "agent/main.py", "def solve", "def solve_not")
    ran = made.ht("evaluate")
    assert ran.code == 0
    assert "note: 1 uncommitted file is not measured: agent/main.py" in ran.err
    for name in ("ht.toml", "rules.jsonl", "panel.toml", "tasks/one/task.toml"):
        with (made.root / name).open("a") as file:
            file.write("\n")
    made.patch("09-new", "agent/skills/two")
    assert "note: 1 uncommitted file is not measured: agent/main.py" in made.ht("evaluate", "-n").err
    assert "1 of 3 solved" in ran.err
    loop = made.ht("epoch")
    assert loop.code == 0, loop.err
    assert "promoted" in loop.err
    assert "def solve_not" in (made.root / "agent" / "main.py").read_text()
    assert made.git("show", "main:agent/skills/one") == "yes"


def test_a_detached_head(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one"})
    made.git("checkout", "-q", "--detach")
    for argv in (("evaluate",), ("epoch",), ("propose",), ("status",)):
        refused(made.ht(*argv), 2, "HEAD is detached", "`git switch BRANCH`")
    assert made.ht("evaluate", "HEAD").code == 0  # a commit of its own name can be measured
    assert made.ht("epoch", HT_BRANCH="main").code == 0


def test_a_second_loop(project: Make) -> None:
    made = project(patches={"01": "agent/skills/one"})
    made.rules('{"reply": "ok", "duration": 1.0, "delay": 0.5}\n')
    first = made.start("epoch", "--progress", "plain")
    assert first.stderr is not None
    assert first.stderr.readline().startswith("epoch 1")
    ran = made.ht("epoch")
    refused(ran, 7, f"'loop' is held by process {first.pid}", "`ht status`")
    assert f"running   loop by pid {first.pid}" in made.ht("status").out
    first.communicate(timeout=60)
    assert first.returncode == 0


# --- the disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes.  Skips where it cannot be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount a small disk: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path, cache_folder: Path) -> None:
    made = make_project(small_disk, cache_folder, patches={"01": "agent/skills/one"})
    assert made.ht("evaluate").code == 0
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    ran = made.ht("epoch")
    assert ran.code == 6, ran.err
    assert "disk" in ran.err or "cannot write" in ran.err
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err
    filler.unlink()
    assert made.ht("fsck", "--exit-code").code == 0
    ran = made.ht("epoch")
    assert ran.code == 0, ran.err
    with made.store() as store:
        assert [epoch.state for epoch in store.epochs()] == ["promoted"]
    assert made.git("fsck") == ""
