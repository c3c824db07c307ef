"""`ht cache`: transcripts over a store that was filled by hand."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.parquet as pq
import pytest

from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.llm import Reply
from harnesstrain.core.records.sandbox import Grade, RunResult
from harnesstrain.store import Store
from tests.cli.conftest import parsed
from tests.project import Project

Make = Callable[..., Project]
COUNTS = ["hits", "misses", "rate", "broken", "epoch", "outdated"]


@pytest.fixture
def filled(project: Make) -> Project:
    """Three replies, two steps and one grade; one hit and one miss among the steps."""
    made = project()
    with Store.open(made.root / ".ht", create=True) as store:
        for number in range(3):
            store.llm_cache().put(f"{number:064x}", Reply(content=f"reply {number}"))
        for number in range(2):
            result = RunResult(exit_code=number, stdout=b"\xff\x00out")
            store.step_cache().put(f"{number:064x}", StepEntry(result=result, scrubbed="s", raw="r", rules="1"))
        store.verify_cache().put(f"{0:064x}", GradeEntry(grade=Grade(reward=1.0)))
        assert store.step_cache().get(f"{0:064x}") and not store.step_cache().get(f"{9:064x}")
    return made


def table(made: Project) -> dict[str, list[str]]:
    """The lines of `ht cache stats` by name, bytes left out."""
    ran = made.ht("cache", "stats")
    assert ran.code == 0
    assert ran.lines[0].split() == [
        "cache",
        "entries",
        "bytes",
        "hits",
        "misses",
        "rate",
        "broken",
        "epoch",
        "outdated",
    ]
    rows = [line.split() for line in ran.lines[1:]]
    return {row[0]: [row[1], *row[3:]] for row in rows}


def test_stats_of_every_cache(filled: Project) -> None:
    assert table(filled) == {
        "llm": ["3", "0", "0", "-", "0", "1", "0"],
        "step": ["2", "1", "1", "50.0%", "0", "1", "0"],
        "verify": ["1", "0", "0", "-", "0", "1", "0"],
    }
    items = parsed(filled.ht("cache", "stats", "--json"))["items"]
    assert [(item["name"], item["entries"], item["rate"]) for item in items] == [
        ("llm", 3, None),
        ("step", 2, 0.5),
        ("verify", 1, None),
    ]


def test_a_bump_says_how_much_it_puts_out_of_reach(filled: Project) -> None:
    planned = filled.ht("cache", "bump", "step", "--dry-run")
    assert planned.lines == ["step: epoch 2, 2 entries out of reach"]
    assert table(filled)["step"][-2:] == ["1", "0"]
    ran = filled.ht("cache", "bump", "step")
    first, states = ran.err.splitlines()
    assert (ran.code, ran.out, first) == (0, "", "step: epoch 2, 2 entries out of reach")
    assert "`ht cache states --max-mb 0`" in states
    assert table(filled)["step"][-2:] == ["2", "2"]
    found = parsed(filled.ht("cache", "bump", "--json"))
    assert (found["kind"], found["dry_run"]) == ("bump", False)
    assert [(item["name"], item["epoch"], item["outdated"]) for item in found["items"]] == [
        ("llm", 2, 3),
        ("step", 3, 0),
        ("verify", 2, 1),
    ]
    wrong = filled.ht("cache", "bump", "steps")
    assert (wrong.code, wrong.err) == (2, "error: there is no cache 'steps'\nhint: caches: llm, step, verify\n")


def test_gc_takes_what_is_out_of_reach(filled: Project) -> None:
    assert filled.ht("cache", "bump", "llm").code == 0
    planned = filled.ht("cache", "gc", "--max-mb", "1", "-n")
    assert [line.split(",")[0] for line in planned.lines] == ["llm: 3 entries", "step: 0 entries", "verify: 0 entries"]
    assert planned.lines[0].endswith(", 3 of older epochs")
    ran = filled.ht("cache", "gc", "--max-mb", "1")
    assert ran.err == "3 entries removed, 3 of older epochs\n"
    found = parsed(filled.ht("cache", "gc", "--max-mb", "0", "--json"))
    assert (found["entries"], found["dry_run"]) == (3, False) and found["bytes"] > 0
    assert [(one["name"], one["entries"], one["outdated"]) for one in found["caches"]] == [
        ("llm", 0, 0),
        ("step", 2, 0),
        ("verify", 1, 0),
    ]


def test_an_export_names_its_files(filled: Project) -> None:
    planned = filled.ht("cache", "export", "out", "--dry-run")
    names = [str(filled.root / "out" / f"{name}.parquet") for name in ("llm", "step", "verify")]
    assert [str(filled.root / line) for line in planned.lines] == names
    assert not (filled.root / "out").exists()
    ran = filled.ht("cache", "export", "out")
    assert (ran.lines, ran.err) == (planned.lines, "llm: 3 entries\nstep: 2 entries\nverify: 1 entries\n")
    steps = pq.read_table(filled.root / "out" / "step.parquet").to_pylist()
    assert [(row["exit_code"], row["stdout"]) for row in steps] == [(0, b"\xff\x00out"), (1, b"\xff\x00out")]
    found = parsed(filled.ht("cache", "export", "out", "--json"))
    assert [(item["name"], item["entries"], item["broken"]) for item in found["items"]] == [
        ("llm", 3, 0),
        ("step", 2, 0),
        ("verify", 1, 0),
    ]
    (filled.root / "file").write_text("")
    wrong = filled.ht("cache", "export", "file")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "error: file is not a folder\nhint: name a folder to write into\n"


def test_fsck_finds_a_damaged_cache_and_says_what_to_do(filled: Project) -> None:
    assert filled.ht("fsck", "--exit-code").code == 0
    (filled.root / ".ht/cache.db").write_text("notes\n" * 1000)
    ran = filled.ht("fsck", "--exit-code")
    assert (ran.code, len(ran.lines)) == (3, 1)
    assert ran.out.startswith("corrupt cache.db: ") and "makes it anew" in ran.out
    assert "hint: delete cache.db in the store" in ran.err
