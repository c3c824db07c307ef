"""`ht export --parquet` and `--csv`: what is written, what is said, and what is refused."""

from __future__ import annotations

import csv
import os
import pty
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import harnesstrain
from harnesstrain.store.frames.catalogue import TABLES
from tests.cli.conftest import parsed
from tests.project import Project

pytestmark = pytest.mark.local


def test_every_table_of_a_real_loop(trained: Project, tmp_path: Path) -> None:
    planned = trained.ht("export", "--parquet", str(tmp_path / "out"), "--dry-run")
    assert planned.code == 0 and not (tmp_path / "out").exists()
    ran = trained.ht("export", "--parquet", str(tmp_path / "out"))
    assert ran.code == 0, ran.err
    assert ran.lines == planned.lines
    assert {Path(line).stem for line in ran.lines} == set(TABLES)
    counts = {line.partition(":")[0]: int(line.split()[1]) for line in ran.err.splitlines()}
    assert counts == {Path(line).stem: pq.read_metadata(line).num_rows for line in ran.lines}
    assert (counts["epochs"], counts["verdicts"], counts["candidates"]) == (3, 3, 4)
    assert all(counts[name] for name in ("runs", "rollouts", "steps", "flips", "panels", "memos", "certificates"))


def test_what_happened_is_in_the_frames(trained: Project) -> None:
    with harnesstrain.open_store(trained.root) as store:
        epochs, flips, rollouts, steps = store.epochs(), store.flips(), store.rollouts(), store.steps()
        promotions = store.promotions()
    assert list(epochs.state) == ["promoted", "rejected", "promoted"]
    assert list(flips.epoch) == [1, 2, 3] and list(flips.task) == ["one", "two", "three"]
    assert list(flips.flip) == ["gained", "lost", "gained"] and flips.evidence.str.len().min() > 0
    assert list(promotions.epoch) == [1, 3] and set(promotions.state) == {"done"}
    newest = rollouts[rollouts.newest & (rollouts.epoch == 3)]
    assert sorted(newest[newest.solved].task) == ["one", "three", "two"]
    calls = steps[steps.kind == "llm"].groupby("rollout").size()
    assert dict(calls) == dict(rollouts.set_index("rollout").llm_calls)
    assert {"ls", "touch one"} <= set(steps.command.dropna())
    assert steps.valid.dropna().all() and steps.valid.notna().sum() == (steps.kind == "note").sum()


def test_one_table_as_json_says_what_was_written(trained: Project, tmp_path: Path) -> None:
    place = tmp_path / "flips.csv"
    found = parsed(trained.ht("export", "flip", "--csv", str(place), "--json"))
    (item,) = found["items"]
    assert (found["kind"], found["dry_run"], found["truncated"]) == ("files", False, False)
    assert item == {"table": "flips", "file": str(place), "rows": 3, "bytes": place.stat().st_size, "lost": []}
    again = parsed(trained.ht("export", "flips", "--csv", str(place), "--json", "--dry-run"))
    assert again["items"][0]["rows"] is None and again["dry_run"] is True


def test_csv_on_stdout(trained: Project) -> None:
    ran = trained.ht("export", "epochs", "--csv", "-")
    assert (ran.code, ran.err) == (0, "")
    assert [row["state"] for row in csv.DictReader(StringIO(ran.out))] == ["promoted", "rejected", "promoted"]


def test_a_terminal_is_not_steered(project: Callable[..., Project]) -> None:
    made = project(patches={"01-one": "agent/skills/one"})
    made.patch("01-one", "agent/skills/one", subject="add \x1b[31m\x1b]0;title\x07 red")
    assert made.ht("propose").code == 0
    assert "\x1b" in made.ht("export", "candidates", "--csv", "-").out, "a pipe gets what is recorded"
    ours, theirs = pty.openpty()
    command = made.argv("export", "candidates", "--csv", "-")
    running = subprocess.Popen(command, cwd=made.root, env=made.environment(), stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the terminal's end
        while read := os.read(ours, 65536):
            shown += read
    os.close(ours)
    assert running.wait() == 0 and running.communicate()[1] == b""
    assert b"\x1b" not in shown and b"\x07" not in shown and b"add  red" in shown


@pytest.mark.parametrize("reader", ["head -c 10", "head -n 1"])
def test_a_reader_that_leaves_is_no_error(trained: Project, reader: str) -> None:
    command = f"set -o pipefail; {' '.join(trained.argv('export', 'steps', '--csv', '-'))} | {reader} >/dev/null"
    done = subprocess.run(
        ["bash", "-c", command], cwd=trained.root, env=trained.environment(), capture_output=True, text=True
    )
    assert done.returncode in (0, 141) and done.stderr == ""


def test_a_full_disk_is_said(trained: Project) -> None:
    command = f"{' '.join(trained.argv('export', 'steps', '--csv', '-'))} >/dev/full"
    done = subprocess.run(
        ["bash", "-c", command], cwd=trained.root, env=trained.environment(), capture_output=True, text=True
    )
    assert done.returncode == 6 and done.stderr.startswith("error: cannot write the output: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--parquet", "a", "--csv", "b"],
            "error: `ht export` takes one of --parquet, --csv, --atif",
        ),
        (["run", "--run", "abcd"], "error: --run and --dry-run are for tables\n"),
        (["regime", "--parquet", "a"], "error: no table 'regime'\nhint: known: runs, "),
        (["--parquet", "a.parquet"], "error: a.parquet is one file, and there are 13 tables\n"),
        (["run", "--csv", "a.parquet"], "error: a.parquet has the name of another format\n"),
        (["run", "--csv", "harness.toml"], "error: harness.toml is not a folder\n"),
        (["--csv", "-"], "error: stdout takes one table, as CSV\n"),
        (["run", "--csv", "-", "--json"], "error: stdout takes one table, as CSV\n"),
        (["verdict", "--csv", "a.csv", "--run", "abcd"], "error: table 'verdicts' cannot be limited to runs\n"),
        (["run", "--csv", ".ht/traces"], "error: {root}/.ht/traces is the store's own\n"),
        (["run", "--csv", "a.csv", "--run", "00000000"], "error: no run starts with '00000000'\n"),
    ],
)
def test_what_cannot_be_meant(trained: Project, words: list[str], said: str) -> None:
    ran = trained.ht("export", *words)
    assert ran.code == 2
    assert trained.ht("export", *words, "--dry-run").err == ran.err, "a dry run refuses the same"
    assert ran.err.startswith(said.format(root=trained.root)) and "\nhint: " in ran.err
    assert not list(trained.root.glob("a*.csv")) and not list(trained.root.glob("a*.parquet"))


def test_a_lost_trace_is_left_out_and_said(project: Callable[..., Project]) -> None:
    made = project()
    run = made.ht("evaluate").out.strip()
    assert made.ht("export", "--csv", "out").code == 0
    for path in (made.root / ".ht" / "traces").rglob("*.parquet"):
        path.unlink()
    ran = made.ht("export", "--csv", "out")
    assert ran.code == 1
    assert "error: 3 traces could not be read; what was written lacks their steps\nhint: `ht fsck`" in ran.err
    assert ran.err.count("warning: trace of rollout ") == 3 and len(ran.lines) == len(TABLES)
    assert len((made.root / "out" / "rollouts.csv").read_text().splitlines()) == 4
    assert len((made.root / "out" / "steps.csv").read_text().splitlines()) == 1
    found = parsed(made.ht("export", "steps", "--csv", "out", "--run", run[:8], "--json"))
    assert len(found["items"][0]["lost"]) == 3 and found["error"]["kind"] == "corrupt"


def test_a_store_that_is_not_there_or_too_old(project: Callable[..., Project]) -> None:
    made = project()
    ran = made.ht("export", "--parquet", "out")
    assert (ran.code, ran.out) == (6, "") and ran.err.startswith("error: no store at ")
    assert made.ht("evaluate").code == 0
    connection = sqlite3.connect(made.root / ".ht" / "store.db")
    connection.execute("UPDATE alembic_version SET version_num = '0000'")
    connection.commit()
    connection.close()
    ran = made.ht("export", "--parquet", "out")
    assert (ran.code, ran.out) == (6, "") and "\nhint: `ht db upgrade`" in ran.err
    assert not (made.root / "out").exists()
