"""`ht tasks pull` and `ht tasks prebuild`, as a user runs them."""

from __future__ import annotations

import json
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.cli.prebuilding import todo
from harnesstrain.core.records.task import Environment
from tests.cli.conftest import parsed
from tests.project import Project

Make = Callable[..., Project]
PANEL = """[panel]
name = "bench"
train = ["one"]
holdout = ["two"]

[source]
repository = "{repository}"
commit = "{commit}"
path = "tasks"
"""


@pytest.fixture
def made(project: Make, tmp_path: Path) -> Project:
    """A project with a panel whose tasks are published in its own repository, and a cache of its own."""
    project_ = project()
    made = Project(project_.root, project_.cache, {"XDG_CACHE_HOME": str(tmp_path / "own")})
    head = made.git("rev-parse", "HEAD")
    (made.root / "tasksets").mkdir()
    text = PANEL.format(repository=f"file://{made.root}", commit=head)
    (made.root / "tasksets/bench.toml").write_text(text)
    return made


def pinned(made: Project, digest: str) -> None:
    """Pin a digest in the panel file."""
    file = made.root / "tasksets/bench.toml"
    file.write_text(file.read_text() + f'digest = "{digest}"\n')


def test_a_panel_is_pulled_and_then_known(made: Project) -> None:
    before = made.ht("tasks", "list", "bench")
    assert before.code == 6
    assert before.err.splitlines()[0] == "error: the 2 tasks of panel 'bench' were not pulled yet"
    assert "`ht tasks pull bench`" in before.err

    plan = made.ht("tasks", "pull", "bench", "-n")
    assert plan.code == 0 and plan.out.startswith("bench: 2 tasks, ")
    assert not (Path(made.env["XDG_CACHE_HOME"]) / "harnesstrain/datasets").exists(), "a dry run writes nothing"

    pulled = made.ht("tasks", "pull", "bench")
    assert pulled.code == 0, pulled.err
    assert sorted(path.name for path in Path(pulled.out.strip()).iterdir()) == ["one", "two"]
    assert "2 tasks, 0.0 MB on disk" in pulled.err
    assert [line.split()[:2] for line in made.ht("tasks", "list", "bench").lines] == [
        ["one", "train"],
        ["two", "holdout"],
    ]
    again = made.ht("tasks", "pull", "bench")
    assert again.out == pulled.out and "here already" in again.err


def test_the_same_data_set_however_it_comes(made: Project, tmp_path: Path) -> None:
    git = parsed(made.ht("tasks", "pull", "bench", "--json"))
    assert git["commit"] == made.git("rev-parse", "HEAD")
    pinned(made, git["digest"])
    with tarfile.open(tmp_path / "set.tar.gz", "w:gz") as tar:
        tar.add(made.root / "tasks", "set-1.0/tasks")
    for origin in (made.root, made.root / "tasks", tmp_path / "set.tar.gz", f"file://{made.root}"):
        found = parsed(made.ht("tasks", "pull", "bench", "--force", "--from", str(origin), "--json"))
        assert found["digest"] == git["digest"], origin
        assert found["path"] == git["path"]


def test_what_is_not_the_data_set_is_refused_and_nothing_is_placed(made: Project, tmp_path: Path) -> None:
    pinned(made, "0" * 64)
    refused = made.ht("tasks", "pull", "bench")
    assert refused.code == 2
    assert "is not data set 'bench'" in refused.err and "hint: 000000000000… is expected" in refused.err
    assert made.ht("tasks", "list", "bench").code == 6
    shutil.copytree(made.root / "tasks", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/two")
    missing = made.ht("tasks", "pull", "bench", "--from", str(tmp_path / "copy"))
    assert missing.code == 2 and "1 of 2 tasks are not in" in missing.err


def test_what_cannot_be_pulled(made: Project) -> None:
    cases = {
        ("nothing",): "'nothing' is no panel, directory, archive or address",
        ("benck",): "did you mean 'bench'?",
        ("tiny", "--from", "x"): "--from belongs to a panel",
        ("bench", "--from", "nowhere"): "there is no nowhere",
        ("bench", "--name", "x"): "--name is for data sets without a panel",
        ("quick",): "are not pulled: they lie in 'quick'",
        ("check.py",): "is no archive",
        ("rules.jsonl",): "rules.jsonl:1: no repo",
        ("agent",): "there are no tasks in",
        ("file:///nowhere/x.git",): "cannot fetch",
    }
    for args, message in cases.items():
        ran = made.ht("tasks", "pull", *args)
        assert (ran.code in (2, 6), ran.out) == (True, ""), args
        assert message in ran.err
        assert "hint: " in ran.err and "Traceback" not in ran.err


def test_a_directory_without_a_panel(made: Project) -> None:
    pulled = made.ht("tasks", "pull", "tasks", "--name", "mine")
    assert pulled.code == 0, pulled.err
    assert "3 of 3 tasks can be measured" in made.ht("tasks", "check", pulled.out.strip()).err
    head = made.git("rev-parse", "HEAD")
    by_address = made.ht("tasks", "pull", f"file://{made.root}@{head}", "--name", "mine")
    assert by_address.out == pulled.out, "the same tasks are the same data set"


def test_rows_of_swe_bench(made: Project, tmp_path: Path) -> None:
    row = {**ROW, "instance_id": "o__n-1"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "instance_id": "o__n-2"}) + "\n")
    panel = made.root / "tasksets/bench.toml"
    text = panel.read_text().replace('"one"', '"o__n-1"').replace('"two"', '"o__n-2"')
    panel.write_text(text + 'format = "swe-bench"\n')
    pulled = parsed(made.ht("tasks", "pull", "bench", "--from", str(tmp_path / "rows.jsonl"), "--json"))
    assert list(pulled["tasks"]) == ["o__n-1", "o__n-2"]
    assert json.loads((Path(pulled["path"]) / "o__n-1/row.json").read_text())["FAIL_TO_PASS"] == ["t"]


def test_a_pull_that_was_killed_leaves_no_data_set(made: Project) -> None:
    for name in range(200):
        shutil.copytree(made.root / "tasks/one", made.root / f"many/task-{name}")
    shelf = Path(made.env["XDG_CACHE_HOME"]) / "harnesstrain/datasets"
    started = made.start("tasks", "pull", "many")
    while started.poll() is None and not list(shelf.glob(".part-*/made/tasks/task-1*")):
        time.sleep(0.01)
    started.kill()
    started.communicate()
    whole = [path for path in shelf.glob("many-*") if not (path / "pulled.json").is_file()]
    assert whole == []
    assert made.ht("tasks", "pull", "many").code == 0


def test_environments_are_built_before_a_run(made: Project) -> None:
    plan = made.ht("tasks", "prebuild", "-n", "--include", "o*")
    assert (plan.code, plan.lines) == (0, ["to-build        one"])
    built = parsed(made.ht("tasks", "prebuild", "--exclude", "three", "--json"))
    assert [(line["result"], line["tasks"]) for line in built["items"]] == [("built", 2)], "one environment, two tasks"
    here = made.ht("tasks", "prebuild", "--split", "train")
    assert here.code == 0 and here.out.startswith("here            one  0.0 MB, 3 tasks")


def test_environments_that_cannot_be_built_are_named(made: Project) -> None:
    (made.root / "tasks/two/environment/Dockerfile").write_text("FROM python:3.11-slim\nRUN exit 3\n")
    (made.root / "tasks/three/environment/Dockerfile").write_text("FROM python:3.11-slim\nVOLUME /x\n")
    ran = made.ht("tasks", "prebuild")
    assert ran.code == 4
    assert {line.split()[1]: line.split()[0] for line in ran.lines} == {
        "one": "built",
        "two": "infra_sandbox",
        "three": "unsupported",
    }
    assert "cannot be built: two" in ran.err


def test_an_empty_argument_is_no_panel(made: Project) -> None:
    for command in ("pull", "list", "check", "oracle", "prebuild"):
        for empty in ("", " "):
            ran = made.ht("tasks", command, empty)
            assert (ran.code, ran.out) == (2, ""), command
            assert ran.err.startswith("error: ") and "hint: " in ran.err


@pytest.mark.parametrize("commit", ["main", "0123abc", "", "0" * 40])
def test_what_follows_an_address_is_a_whole_commit(made: Project, commit: str) -> None:
    ran = made.ht("tasks", "pull", f"file://{made.root}@{commit}", "--name", "mine")
    assert (ran.code, ran.out) == (2, "")
    assert "COMMIT must be 40 hex digits" in ran.err


def test_a_split_that_is_not_there_is_the_same_error_everywhere(made: Project) -> None:
    said = {made.ht("tasks", command, "tasks", "--split", "nope").err for command in ("list", "oracle", "prebuild")}
    assert said == {"error: no split 'nope'\nhint: a panel has train, holdout, sealed\n"}
    assert len(made.ht("tasks", "list", "tasks", "--split", "all").lines) == 3


ROW = {
    "repo": "pallets/flask",
    "version": "2.0",
    "base_commit": "0" * 40,
    "problem_statement": "It breaks.",
    "test_patch": "diff --git a/t.py b/t.py\n",
    "FAIL_TO_PASS": ["t"],
    "PASS_TO_PASS": [],
}
"""A row of SWE-bench, without its id."""


def copies(made: Project, *places: str) -> None:
    """Copies of one task, at paths in the project."""
    for place in places:
        shutil.copytree(made.root / "tasks/one", made.root / place)


@pytest.mark.parametrize(
    ("places", "taken", "left"),
    [
        (("nest/a/x", "nest/b/x"), ["x"], "1 task left out: b/x;"),
        (("nest/y", "nest/z/x"), ["y"], "1 task left out: z/x;"),
        (("nest/a/b/c/d/e/x",), ["x"], None),
    ],
)
def test_no_task_is_left_out_silently(made: Project, places: tuple[str, ...], taken: list[str], left: str) -> None:
    copies(made, *places)
    pulled = made.ht("tasks", "pull", "nest")
    assert pulled.code == 0, pulled.err
    assert sorted(path.name for path in Path(pulled.out.strip()).iterdir()) == taken
    assert (f"note: {left}" in pulled.err) if left else ("left out" not in pulled.err)
    if left:
        assert f"note: {left}" in made.ht("tasks", "pull", "nest", "-n").err
        other = made.ht("tasks", "pull", "nest", "--path", left.split()[-1].partition("/")[0], "--name", "other")
        assert other.code == 0 and "left out" not in other.err


def test_rows_in_either_place_are_all_taken(made: Project) -> None:
    for number in range(4):
        file = made.root / f"sw/o__n-{number}" / ("row.json" if number < 2 else "tests/config.json")
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({**ROW, "instance_id": f"o__n-{number}"}))
    assert made.ht("tasks", "pull", "sw", "-n").out.startswith("sw: 4 tasks")
    assert list(parsed(made.ht("tasks", "pull", "sw", "--json"))["tasks"]) == [f"o__n-{n}" for n in range(4)]
    bare = made.root / "sw/o__n-0/row.json"
    bare.write_text(json.dumps({**ROW, "instance_id": "o__n-0", "base_commit": ""}))
    assert made.ht("tasks", "pull", "sw", "-n").out.startswith("sw: 3 tasks")
    less = made.ht("tasks", "pull", "sw", "--force")
    assert less.code == 0 and "note: 1 row left out that can be no task: o__n-0 has no base_commit" in less.err
    copies(made, "sw/plain")
    mixed = made.ht("tasks", "pull", "sw")
    assert "2 tasks left out: o__n-2, o__n-3" in mixed.err


def test_a_path_is_honoured_or_refused(made: Project, tmp_path: Path) -> None:
    copies(made, "nest/a/x", "nest/b/y")
    with tarfile.open(tmp_path / "set.tar", "w") as tar:
        tar.add(made.root / "nest", "set-1.0")
    for place in ("nest", str(tmp_path / "set.tar")):
        found = parsed(made.ht("tasks", "pull", place, "--path", "b/", "--json"))
        assert list(found["tasks"]) == ["y"]
        gone = made.ht("tasks", "pull", place, "--path", "gone")
        assert gone.code == 2 and gone.err.splitlines()[-2].startswith("error: there are no tasks in ")
        assert f"{place}/gone" in gone.err and ".part-" not in gone.err
        for outside in ("../tasks", "/etc", "b/../../tasks"):
            ran = made.ht("tasks", "pull", place, "--path", outside)
            assert (ran.code, ran.out) == (2, "") and f"--path {outside} lies outside" in ran.err
    ran = made.ht("tasks", "pull", "bench", "--from", str(made.root), "--path", "nest")
    assert ran.code == 2 and f"none of the 2 tasks is in {made.root}/nest" in ran.err
    assert made.ht("tasks", "pull", "rules.jsonl", "--path", "x").code == 2


def test_a_pinned_digest_counts_whenever_the_tasks_are_used(made: Project) -> None:
    found = parsed(made.ht("tasks", "pull", "bench", "--json"))
    pinned(made, "1" * 64)
    for command in (("tasks", "list"), ("tasks", "check"), ("tasks", "oracle"), ("evaluate", "-n", "--panel")):
        ran = made.ht(*command, "bench")
        assert (ran.code, ran.out) == (6, ""), command
        assert "were not pulled with the digest that its file names" in ran.err
        assert "`ht tasks pull bench --force`" in ran.err
    file = made.root / "tasksets/bench.toml"
    file.write_text(file.read_text().replace("1" * 64, found["digest"]))
    assert made.ht("tasks", "list", "bench").code == 0


def test_what_is_here_already_is_what_was_pulled(made: Project) -> None:
    tasks = Path(made.ht("tasks", "pull", "bench").out.strip())
    (tasks / "one/task.toml").write_text("# changed\n")
    again = made.ht("tasks", "pull", "bench")
    assert again.code == 0 and "what is here is not used: task 'one' was changed" in again.err
    assert "# changed" not in (tasks / "one/task.toml").read_text()
    shutil.rmtree(tasks / "two")
    assert "what is here is not used" in made.ht("tasks", "pull", "bench").err
    file = made.root / "tasksets/bench.toml"
    file.write_text(file.read_text().replace('"two"', '"two", "three"'))
    assert "what is here is not used: it lacks three" in made.ht("tasks", "pull", "bench").err
    assert "here already" in made.ht("tasks", "pull", "bench").err


def test_a_copy_on_trust_is_said_each_time(made: Project) -> None:
    said = f"note: from {made.root}, on trust"
    for _ in range(2):
        assert said in made.ht("tasks", "pull", "bench", "--from", str(made.root)).err
    assert said in made.ht("tasks", "pull", "bench").err
    assert "on trust" not in made.ht("tasks", "pull", "bench", "--force").err


def test_errors_name_the_archive(made: Project, tmp_path: Path) -> None:
    (made.root / "mini/other").mkdir(parents=True)
    with tarfile.open(tmp_path / "mini.tar", "w") as tar:
        tar.add(made.root / "mini", "mini")
    for origin in (made.root / "mini", tmp_path / "mini.tar"):
        ran = made.ht("tasks", "pull", "bench", "--from", str(origin))
        assert ran.code == 2 and f"error: none of the 2 tasks is in {origin}\n" in ran.err


def test_a_sandbox_that_takes_none_of_the_environments(made: Project) -> None:
    for name in ("one", "two", "three"):
        (made.root / f"tasks/{name}/environment/Dockerfile").write_text(f"FROM python:3.11-slim\nVOLUME /{name}\n")
    ran = made.ht("tasks", "prebuild")
    assert ran.code == 6, ran.err
    assert {line.split()[0] for line in ran.lines} == {"unsupported"}
    assert "can build none of these environments" in ran.err
    assert "--set sandbox.kind=docker" in ran.err.splitlines()[-1]
    file = made.root / "tasks/one/task.toml"
    file.write_text("[environment]\nnetwork_mode = 'allowlist'\n")
    checked = made.ht("tasks", "check", "tasks/one")
    assert "0 of 1 task can be measured" in checked.err
    assert "hint: one: leave it out: --exclude one, when you run the others" in checked.err


def test_what_is_published_is_pulled_and_the_rest_is_built(tmp_path: Path) -> None:
    assert todo(Environment(image="x:1")) == "to-pull"
    assert todo(Environment(context=tmp_path, image="x:1")) == "to-build"
    assert todo(Environment(image="x:1", compose="docker-compose.yaml")) == "to-build"


def test_a_panel_says_itself_which_commit_and_path(made: Project) -> None:
    head, address = made.git("rev-parse", "HEAD"), f"file://{made.root}"
    assert made.ht("tasks", "pull", "bench", "--path", "nest").code == 2
    assert "COMMIT must be 40 hex digits" in made.ht("tasks", "pull", "bench", "--from", f"{address}@main").err
    assert "panel 'bench' is of commit" in made.ht("tasks", "pull", "bench", "--from", f"{address}@{'1' * 40}").err
    pulled = made.ht("tasks", "pull", "bench", "--from", f"{address}@{head}")
    assert pulled.code == 0 and "on trust" not in pulled.err
    copies(made, "nest/one", "nest/two")
    made.git("add", "nest")
    made.git("commit", "-qm", "More tasks")
    file = made.root / "tasksets/bench.toml"
    file.write_text(file.read_text().replace(head, made.git("rev-parse", "HEAD")))
    other = made.ht("tasks", "pull", "bench", "--from", address, "--path", "nest")
    assert other.code == 0 and f"note: from {address}, on trust" in other.err


def test_one_is_counted_as_one(made: Project) -> None:
    file = made.root / "tasksets/bench.toml"
    file.write_text(file.read_text().replace('holdout = ["two"]', ""))
    assert "error: the task of panel 'bench' was not pulled yet" in made.ht("tasks", "list", "bench").err
    (made.root / "mini").mkdir()
    refused = made.ht("tasks", "pull", "bench", "--from", "mini")
    assert f"error: the task is not in {made.root}/mini\n" in refused.err
    assert "here already: bench: 1 task from" not in made.ht("tasks", "pull", "bench").err
    assert "here already: bench: 1 task from" in made.ht("tasks", "pull", "bench").err
