"""The queries of docs/guides/your-own-analysis.md, run as they are printed, on a store with a whole history."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.docs.generate import ROOT
from tests.project import Project
from tests.storied import Story, tell

TASKS = 8
PAGE = ROOT / "docs" / "guides" / "your-own-analysis.md"
BLOCKS = re.findall(r"```(sql|python|sh)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
SQL = [code for language, code in BLOCKS if language == "sql"]
PYTHON = [code for language, code in BLOCKS if language == "python"]
SHELL = [line for language, code in BLOCKS if language == "sh" for line in code.splitlines() if line]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """A history with gains, losses and failures, exported as the page says."""
    project = tell(Story(epochs=8, tasks=TASKS, holdout=1, steps=6), tmp_path_factory.mktemp("told"), cache_folder)
    ran = project.ht("export", "--parquet", "out")
    assert ran.code == 0, ran.err
    return project


@pytest.fixture
def here(told: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """The working directory is the project."""
    monkeypatch.chdir(told.root)
    yield told


def test_the_page_has_queries_of_each_sort() -> None:
    assert len(SQL) >= 5 and len(PYTHON) >= 3 and len(SHELL) >= 4


@pytest.mark.parametrize("query", SQL, ids=lambda query: query.split("FROM")[0][:40])
def test_a_query(here: Project, query: str) -> None:
    found = duckdb.sql(query)
    rows = found.fetchall()
    assert rows
    for name, values in zip(found.columns, zip(*rows, strict=True), strict=True):
        assert any(value is not None for value in values), f"{name} is always null"


@pytest.mark.parametrize("program", PYTHON)
def test_a_program(here: Project, program: str) -> None:
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(program, str(PAGE), "exec"), {})
    assert len(out.getvalue().splitlines()) > 3


def test_a_command(here: Project) -> None:
    run = here.ht("export", "run", "--json").out
    (first, *_) = re.findall(r'"id": "([0-9a-f]{64})"', run)
    for line in SHELL:
        words = line.partition("#")[0].partition("|")[0].replace("3f2a", first[:8]).split()
        assert words[0] == "ht"
        ran = here.ht(*words[1:])
        assert ran.code == 0, f"{line}: {ran.err}"
        assert ran.lines


def test_flips_are_those_of_the_verdicts(here: Project) -> None:
    with here.store() as store:
        flips = sum(len(one.gained) + len(one.lost) for one in store.verdicts())
    (query,) = [query for query in SQL if "flips.parquet" in query]
    assert flips and sum(gained + lost for _, gained, lost, *_ in duckdb.sql(query).fetchall()) == flips


def test_tokens_per_solve_are_those_of_the_rollouts(here: Project) -> None:
    (query,) = [query for query in SQL if "tokens_per_solve" in query]
    with here.store() as store:
        by_version = {}
        for run in store.runs():
            rollouts = store.rollouts(run.id)
            solved = sum(one.solved for one in rollouts)
            whole = len(rollouts) == TASKS and all(one.outcome.scorable for one in rollouts)
            if run.split == "train" and solved and whole:
                by_version[run.commit[:8]] = round(sum(one.usage.total for one in rollouts) / solved)
    assert {row[1]: row[-1] for row in duckdb.sql(query).fetchall() if row[-1] is not None} == by_version


def test_no_failure_of_the_infrastructure_is_taken_for_a_miss(here: Project) -> None:
    with here.store() as store:
        runs = [run for run in store.runs() if run.split == "train"]
        ends = {run.id: [one.outcome for one in store.rollouts(run.id)] for run in runs}
    noisy = {run.commit[:8] for run in runs if not all(one.scorable for one in ends[run.id])}
    part = {run.commit[:8] for run in runs if len(ends[run.id]) < TASKS}
    assert noisy and part, "the history has both"
    for query in SQL:
        if "'out/runs.parquet'" in query:
            found = duckdb.sql(query)
            versions = {row[found.columns.index("version")] for row in found.fetchall()}
            assert versions == {run.commit[:8] for run in runs} - noisy - part
    (program,) = [program for program in PYTHON if "pivot_table" in program]
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()):
        exec(compile(program, str(PAGE), "exec"), names)
    lost = [run for run in runs if run.commit[:8] in noisy]
    measured = sum(one.scorable for run in lost for one in ends[run.id])
    epochs = names["cells"][names["cells"].run.isin([run.id for run in lost])].epoch.unique()
    assert 0 < measured < TASKS and len(epochs) == 1
    assert names["matrix"][epochs[0]].notna().sum() == measured
