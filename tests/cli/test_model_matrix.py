"""Two versions on two models, measured for real: what the report says limits each task."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core import confinement
from tests.cli.conftest import parsed
from tests.project import Project, make_project

pytestmark = pytest.mark.local

AGENT = """\
from pathlib import Path

from ht_sdk import Episode, serve

POLITE = Path(__file__).parent / "polite"


def solve(ep: Episode) -> None:
    name = ep.task.instruction.split()[-1]
    reply = ep.complete([{"role": "user", "content": name + (" please" if POLITE.exists() else "")}])
    ep.run(reply.content)
    ep.submit()


serve(solve)
"""
SMALL = """\
{"match": "one", "reply": "touch one"}
{"match": "two please", "reply": "touch two"}
{"reply": "true"}
"""
LARGE = """\
{"settings": {"name": "large", "context_length": 8192}}
{"match": "one|three", "reply": "touch one three"}
{"reply": "true"}
"""
BOTH = ("--endpoint", "llm", "--endpoint", "large")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """`main` and `polite`, each on `llm` and `large`."""
    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no local sandbox: {why}")
    made = make_project(
        tmp_path_factory.mktemp("models"),
        cache_folder,
        settings='\n[endpoints.large]\nscript = "large.jsonl"\ncontext_length = 8192\n',
        tasks=("one", "two", "three", "four"),
        files={"large.jsonl": LARGE},
    )
    made.rules(SMALL)
    (made.root / "agent" / "main.py").write_text(AGENT)
    made.git("commit", "-qam", "Do what the model says")
    made.git("checkout", "-qb", "polite")
    (made.root / "agent" / "polite").write_text("yes\n")
    made.git("add", "agent")
    made.git("commit", "-qm", "Be polite")
    made.git("checkout", "-q", "main")
    one = made.ht("evaluate", "main", *BOTH)
    assert one.code == 0, one.err
    before = made.ht("report")
    assert "one version was measured on two models" in before.out
    done = made.ht("evaluate", "main..polite", *BOTH)
    assert done.code == 0, done.err
    assert len(set(done.lines)) == 4
    return made


def test_each_task_is_labelled_on_each_model(measured: Project) -> None:
    main, polite = (measured.git("rev-parse", name) for name in ("main", "polite"))
    found = parsed(measured.ht("report", "--compare", "main..polite", "--json"))["models"]
    assert [one["name"] for one in found["columns"]] == ["scripted", "large"]
    assert [one["context_length"] for one in found["columns"]] == [4096, 8192]
    assert [row["commit"] for row in found["rows"]] == [main, polite]
    solved = [[cell["solved"] for cell in row["cells"]] for row in found["rows"]]
    assert solved == [[1, 2], [2, 2]]
    labels = {one["task"]: [limit["label"] for limit in one["limits"]] for one in found["tasks"]}
    assert labels == {
        "one": ["solved", "solved"],
        "two": ["harness-limited", "model-limited"],
        "three": ["model-limited", "solved"],
        "four": ["unsolved", "unsolved"],
    }
    two = next(one for one in found["tasks"] if one["task"] == "two")["limits"]
    assert (two[0]["limited"], two[0]["witness"]) == ([main], polite)
    assert (two[1]["witness"], two[1]["elsewhere"]) == (polite, [found["columns"][0]["endpoint"]])
    cell = found["rows"][1]["cells"][0]
    assert cell["calls_per_solve"] == 2.0
    assert 0.15 < cell["interval"]["low"] < 0.16
    assert 0.84 < cell["interval"]["high"] < 0.86


def test_the_text_says_the_same(measured: Project) -> None:
    shown = measured.ht("report", "--compare", "main..polite").out
    main, polite = (measured.git("rev-parse", name)[:8] for name in ("main", "polite"))
    assert "Of 4 tasks: 1 solved everywhere, 1 unsolved everywhere (four).\n" in shown
    assert f"harness-limited: {main}; solved by {polite}" in shown
    assert f"model-limited: {polite} solves it elsewhere" in shown
    assert "Context differs, as part of the model: scripted 4096, large 8192 tokens." in shown
    assert measured.ht("report", "--compare", "main..polite", "--md").out.count("## Models") == 1


def test_status_and_report_keep_to_the_configured_model(measured: Project) -> None:
    assert "solved    1 of 4\n" in measured.ht("status").out
    assert parsed(measured.ht("report", "--json"))["header"]["model"]["model"] == "scripted"


def test_a_model_is_certified_by_its_name(measured: Project) -> None:
    planned = measured.ht("certify", "model", "--endpoint", "large", "--dry-run")
    assert planned.code == 0, planned.err
    assert planned.out.startswith("model large: ")
    certified = measured.ht("certify", "env", "main", "--endpoint", "large", "--json")
    assert certified.code == 0, certified.err
    with measured.store() as store:
        (run,) = [
            one.id
            for one in store.runs()
            if "large" in one.asked_as and one.commit == measured.git("rev-parse", "main")
        ]
    assert parsed(certified)["runs"] == [run]
