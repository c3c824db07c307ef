"""Commands that look, as real processes: arguments → stdout, stderr, code; and the --json form of each."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import ENVELOPE, parsed
from tests.project import Project

pytestmark = pytest.mark.local
HEX = r"[0-9a-f]"


def shaped(text: str, pattern: str) -> bool:
    """Whether the whole text matches."""
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def test_log_is_newest_first(trained: Project) -> None:
    ran = trained.ht("log")
    assert (ran.code, ran.err) == (0, "")
    epochs = [(line.split()[0], *line.split()[2:4]) for line in ran.lines[:4]]
    assert epochs == [
        ("-", "·", "candidate"),
        ("e3", "▲", "promoted"),
        ("e2", "×", "rejected"),
        ("e1", "▲", "promoted"),
    ]
    assert ran.lines[4:] == ["solved ▃▆▆█ 1 → 3 of 3", "        ▲ ▲"]
    short = trained.ht("log", "--limit", "1")
    assert len(short.lines) == 3
    assert "only the newest 1 are shown" in short.err


def test_status(trained: Project) -> None:
    ran = trained.ht("status")
    assert ran.code == 0
    assert shaped(ran.out, rf"baseline  main at {HEX}{{8}}\nsolved    3 of 3\nepochs    3, 2 promoted, 0 failed .*\n.*")
    assert ran.lines[-1] == "server    stopped"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("e2", "epoch"), ("RUN", "run"), ("CANDIDATE", "candidate"), ("VERDICT", "verdict"), ("RUN:one", "rollout")],
)
def test_show(trained: Project, name: str, kind: str) -> None:
    with trained.store() as store:
        epoch = store.epoch(3)
        for word, value in (("RUN", epoch.cand_run), ("CANDIDATE", epoch.candidate), ("VERDICT", epoch.verdict)):
            name = name.replace(word, (value or "")[:8])
    ran = trained.ht("show", name)
    assert ran.code == 0
    assert ran.lines[0].startswith(f"{kind} ")
    found = parsed(trained.ht("show", name, "--json"))
    more = {"run": {"rollouts"}, "rollout": {"steps"}}.get(kind, set())
    assert set(found) == ENVELOPE | {"id", "record"} | more
    assert found["kind"] == kind


def test_show_a_version(trained: Project) -> None:
    with trained.store() as store:
        run = store.epoch(3).cand_run
    assert trained.ht("show", "@").lines[0] == f"run {run}"
    assert trained.ht("show", "main").lines[0] == f"run {run}"
    unknown = trained.ht("show", "nope")
    assert (unknown.code, unknown.out) == (2, "")


def test_rev_parse_knows_every_name(trained: Project) -> None:
    git = trained.git
    with trained.store() as store:
        one, two, three = store.epochs()
        commits = [store.candidate(epoch.candidate or "").commit for epoch in (one, two, three)]
        short_run, short_verdict = (three.cand_run or "")[:8], (two.verdict or "")[:8]
        by_hand = store.candidates()[-1]
    names = ["@", "@~1", "@~2", "e1", "e2", "e3^", "main", f"id:{short_run}", short_verdict, by_hand.id[:10]]
    ran = trained.ht("rev-parse", *names)
    start = git("rev-list", "--max-parents=0", "main")
    want = [commits[2], commits[0], start, commits[0], commits[1], commits[0], commits[2], commits[2], commits[1]]
    assert ran.lines == [*want, by_hand.commit]
    assert trained.ht("rev-parse", "@~1..e3", "..e1").lines == [commits[0], commits[2], commits[2], commits[0]]
    assert trained.ht("rev-parse", "e1..", "main..").lines == [commits[0], commits[2], commits[2], commits[2]]
    piped = trained.ht("rev-parse", "-", stdin="@  and more words\n\ne1\n")
    assert piped.lines == [commits[2], commits[0]]
    assert parsed(trained.ht("rev-parse", "@", "--json"))["items"] == [commits[2]]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("@~9", "'@~9' is before the first commit"),
        ("e9", "no epoch 9"),
        ("nothing", "no commit is called 'nothing'"),
        ("abc", "no commit is called 'abc'"),
        ("id:ffffffff", "no id starts with 'ffffffff'"),
    ],
)
def test_names_that_mean_nothing(trained: Project, name: str, why: str) -> None:
    ran = trained.ht("rev-parse", name)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {why}\n")
    assert "hint: " in ran.err


def test_a_report_in_three_forms(trained: Project) -> None:
    text = trained.ht("report")
    assert text.code == 0
    assert text.lines[0].startswith("Report ")
    assert trained.ht("report", "--md").lines[0].startswith("# ")
    found = parsed(trained.ht("report", "--json"))
    assert found["kind"] == "report"
    file = trained.root.parent / "report.md"
    ran = trained.ht("report", "--md", "--out", str(file))
    assert ran.lines == [str(file)]
    assert file.read_text().startswith("# ")
    ran = trained.ht("report", "--json", "--out", str(file))
    assert parsed(ran)["path"] == str(file)
    assert json.loads(file.read_text())["kind"] == "report"
    assert trained.ht("report", "--json", "--md").code == 2
    compared = trained.ht("report", "--compare", "e1..e3")
    assert compared.code == 0
    assert "gained" in compared.out
    nowhere = trained.ht("report", "--out", "/nonexistent/report")
    assert nowhere.code == 6
    assert "cannot write /nonexistent/report" in nowhere.err


def test_diff_shows_where_versions_part(trained: Project) -> None:
    ran = trained.ht("diff", "@~1..@")
    assert ran.code == 0
    assert "three s1  failed_verification → solved  diverged at step 6 (outcome)  gained, collateral" in ran.out
    assert [line.split()[0] for line in ran.lines if "proven unchanged" in line] == ["one", "two"]
    assert trained.ht("diff", "@~1..@", "--exit-code").code == 3
    one = trained.ht("diff", "@~1..@", "--task", "three")
    assert "touch three" in one.out
    assert trained.ht("diff", "@~1..@", "--task", "nope").code == 2
    assert "+++ b/agent/skills/three" in trained.ht("diff", "@~1..@", "--patch").out
    both = trained.ht("diff", "@~1..@", "--patch", "--task", "three")
    assert (both.code, both.out) == (2, "") and "--patch is of the whole harness" in both.err
    same = trained.ht("diff", "@..@", "--exit-code")
    assert same.code == 0
    with trained.store() as store:
        regime = list(store.runs())[-1].regime
    assert (
        trained.ht("diff", f"{regime[:8]}..{regime[:8]}", "--exit-code").code,
        parsed(trained.ht("diff", f"{regime[:8]}..{regime[:8]}", "--json"))["differs"],
    ) == (0, {})


def test_traces_are_json_lines(trained: Project) -> None:
    with trained.store() as store:
        run = (store.epoch(3).cand_run or "")[:8]
    ran = trained.ht("cat-trace", f"{run}:three")
    rows = [json.loads(line) for line in ran.lines]
    assert [row["kind"] for row in rows] == ["llm", "note", "run", "llm", "note", "run", "run", "submit"]
    assert all(isinstance(key, str) for row in rows for key in row["messages"])
    full = [json.loads(line) for line in trained.ht("cat-trace", f"{run}:three", "--messages").lines]
    assert full[0]["messages"][0]["content"].startswith("Make /app/NAME")
    assert trained.ht("cat-trace", f"{run}:nope").code == 2


def test_records_can_be_verified_checked_and_exported(trained: Project) -> None:
    assert trained.ht("verify", "--exit-code").err.startswith("3 verdicts derived again, 0 mismatches")
    assert trained.ht("fsck", "--exit-code").err == "nothing wrong\n"
    rows = [json.loads(line) for line in trained.ht("export", "epoch").lines]
    assert {row["record"]["number"] for row in rows} == {1, 2, 3}
    assert trained.ht("export", "nonsense").code == 2
    assert trained.ht("db", "check").out.startswith("current: schema ")


def test_settings_say_where_they_come_from(trained: Project) -> None:
    ran = trained.ht("config", "llm.engine", "measure.jobs", "--show-origin", HT_JOBS="3")
    assert shaped(ran.lines[0], r'\* llm.engine = "scripted"  # .*ht.toml.*')
    assert shaped(ran.lines[1], r"  measure.jobs = 3  # .*HT_JOBS.*")
    ran = trained.ht("config", "measure.jobs", "--set", "measure.jobs=7", "--show-origin")
    assert "= 7  # " in ran.out
    assert trained.ht("config", "nonsense").code == 2


def test_tasks(trained: Project) -> None:
    listed = trained.ht("tasks", "list")
    assert [line.split()[:2] for line in listed.lines] == [["one", "train"], ["two", "train"], ["three", "train"]]
    checked = trained.ht("tasks", "check", "--exit-code")
    assert checked.code == 0
    assert "3 of 3 tasks can be measured" in checked.err
    noop = trained.ht("tasks", "oracle", "--noop", "--exit-code", "--include", "o*")
    assert (noop.code, noop.out) == (0, "unsolved        one\n")
    without = trained.ht("tasks", "oracle", "--include", "one")
    assert without.code == 4
    assert "config          one  task 'one' has no reference solution" in without.out


def test_a_task_that_cannot_run_here_is_said_by_name(project: Callable[..., Project]) -> None:
    made = project()
    tasks = made.root / "more"
    for name in ("fine", "netted", "odd", "broken"):
        shutil.copytree(made.root / "tasks" / "one", tasks / name)
    toml = (tasks / "netted" / "task.toml").read_text()
    (tasks / "netted" / "task.toml").write_text(toml.replace('network_mode = "no-network"\n', ""))
    (tasks / "odd" / "environment" / "Dockerfile").write_text("FROM debian:bookworm-slim\nVOLUME /data\n")
    shutil.rmtree(tasks / "broken" / "tests")

    checked = parsed(made.ht("tasks", "check", "more", "--json"))
    found = {task["name"]: (task["status"], " ".join(task["reasons"])) for task in checked["items"]}
    assert {name: status for name, (status, _) in found.items()} == {
        "fine": "ok",
        "netted": "unsupported",
        "odd": "unsupported",
        "broken": "error",
    }
    assert "network" in found["netted"][1]
    assert "VOLUME" in found["odd"][1]
    allowed = made.ht("tasks", "check", "more", "--set", "sandbox.network=host")
    assert "ok          netted" in allowed.out
    formats = made.ht("tasks", "check", "more", "--set", "sandbox.kind=process")
    assert "only the tasks' files are checked" in formats.err
    assert "ok          odd" in formats.out

    shutil.copytree(tasks / "broken", made.root / "alone")
    alone = made.ht("tasks", "oracle", "alone", "--exit-code")
    assert (alone.code, alone.out.split()[:2]) == (4, ["error", "alone"])
    assert "0 of 1 solved" in alone.err

    shutil.rmtree(tasks / "broken")
    shutil.rmtree(tasks / "odd")
    ran = made.ht("evaluate", "--panel", "more")
    assert "error: task 'netted': " in ran.err
    assert "`--exclude netted`" in ran.err
    assert made.ht("evaluate", "--panel", "more", "--exclude", "netted").code == 0


def test_caches(trained: Project) -> None:
    ran = trained.ht("cache", "stats")
    assert shaped(ran.lines[0], r"cache +entries +bytes +hits +misses +rate +broken +epoch +outdated")
    assert any(line.startswith("llm") for line in ran.lines)
    assert trained.ht("cache", "gc", "--max-mb", "100", "--dry-run").code == 0


DRY = {
    "init": ("init", "elsewhere"),
    "evaluate": ("evaluate", "@"),
    "certify": ("certify",),
    "propose": ("propose",),
    "judge": ("judge", "@~1..@"),
    "promote": ("promote", "e2"),
    "epoch": ("epoch", "--n", "2"),
    "gc": ("gc",),
    "cache": ("cache", "gc", "--max-mb", "0"),
    "db": ("db", "upgrade"),
    "serve-llm": ("serve-llm", "--engine", "scripted", "--script", "rules.jsonl"),
    "model": ("model", "pull"),
}


def files(project: Project) -> dict[str, bytes]:
    """Every file that a command could have changed, but SQLite's shared memory, which readers touch."""
    found = {}
    for place in (project.root, project.temporary):
        for path in sorted(place.rglob("*")):
            if path.is_file() and not path.name.endswith(("-shm", "-wal")):
                found[str(path)] = path.read_bytes()
    return found


def test_a_dry_run_writes_nothing_and_says_what_it_would_do(trained: Project) -> None:
    trained.ht("cache", "stats")
    before = files(trained)
    for name, argv in DRY.items():
        ran = trained.ht(*argv, "--dry-run", "--json")
        assert ran.code == 0, (name, ran.err)
        assert parsed(ran)["error"] is None
        assert files(trained) == before, name


def test_two_dots_alone_name_nothing(trained: Project) -> None:
    for argv in (("rev-parse", ".."), ("judge", ".."), ("diff", ".."), ("diff", "..", "--patch"), ("evaluate", "..")):
        ran = trained.ht(*argv)
        assert (ran.code, ran.out) == (2, ""), argv
        assert ran.err.startswith("error: '..' names no version\nhint: write BASE..CAND"), ran.err


def test_a_version_is_not_judged_against_itself(trained: Project) -> None:
    with trained.store() as store:
        before, run = len(list(store.verdicts())), store.epoch(3).cand_run or ""
    for compared in ("@..@", "@..", "..e3", f"{run[:10]}..{run[:10]}", f"..{run[:10]}"):
        ran = trained.ht("judge", compared)
        assert ran.code == 2 and "would be compared with itself" in ran.err, (compared, ran)
    with trained.store() as store:
        assert len(list(store.verdicts())) == before


def test_two_runs_of_one_version_are_judged_where_they_are_named(project: Callable[..., Project]) -> None:
    made = project()
    runs = [made.ht("evaluate", *fresh).lines[0] for fresh in ((), ("--fresh", "x"))]
    assert made.ht("judge", "@..@").code == 2
    assert made.ht("judge", f"{runs[0]}..{runs[1]}").code == 0


def test_the_baseline_itself_is_not_promoted(project: Callable[..., Project]) -> None:
    made = project()
    head = made.git("rev-parse", "main")[:8]
    for _ in range(2):
        ran = made.ht("promote", "@")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"error: {head} is the baseline already: there is nothing to promote\n"), ran.err
        assert made.ht("evaluate").code == 0


def test_a_rollout_is_named_by_a_version_and_a_task(trained: Project) -> None:
    with trained.store() as store:
        run, first = store.epoch(3).cand_run or "", store.epoch(1).cand_run or ""
        (wanted,) = [one.id for one in store.rollouts(run) if one.task == "one"]
        (other,) = [one.id for one in store.rollouts(first) if one.task == "one"]
    assert parsed(trained.ht("show", "@:one", "--json"))["id"] == wanted
    assert parsed(trained.ht("show", "e1:one", "--json"))["id"] == other
    assert trained.ht("cat-trace", "@:one").out == trained.ht("cat-trace", f"{run[:8]}:one").out != ""
    assert trained.ht("export", "--atif", "@:one").out == trained.ht("export", "--atif", f"{run[:8]}:one").out != ""
    for command in ("show", "cat-trace"):
        assert "has no rollout of 'nope'" in trained.ht(command, "@:nope").err
        nobody = trained.ht(command, "nobody:one")
        assert nobody.err.startswith("error: 'nobody' is neither a run nor a version\nhint: RUN:TASK takes"), nobody.err
        assert trained.ht(command, "@~99:one").err.startswith("error: '@~99' is before the first commit\n")
    assert trained.ht("show", "@~99").err.startswith("error: '@~99' is before the first commit\n")


REFUSED = {
    ("propose", "-e", "nope"): "no 'nope' among estimators",
    ("epoch", "-p", "nope"): "no panel 'nope'",
    ("epoch", "--split", "nope"): "no split 'nope'",
    ("epoch", "--set", "llm.script=/nope"): "'/nope' cannot be read",
    ("epoch", "--max-time", "nope"): "nope",
    ("model", "pull", "nope"): "no model 'nope' in the catalogue",
    ("model", "pull", "--file", "/nope"): "/nope cannot be read",
    ("model", "pull", "--source", "nope"): "no model source 'nope'",
    ("export", "--csv", "/proc/x"): "cannot write /proc/x",
}


@pytest.mark.parametrize("argv", REFUSED)
def test_a_dry_run_refuses_what_the_command_would_refuse(trained: Project, argv: tuple[str, ...]) -> None:
    planned, done = trained.ht(*argv, "--dry-run"), trained.ht(*argv)
    assert planned.code == done.code != 0, (planned, done)
    assert REFUSED[argv] in planned.err, planned.err
    assert planned.err.splitlines()[0] in done.err.splitlines()
    assert not [entry for entry in parsed(trained.ht("log", "--json"))["items"] if entry["state"] == "started"]


def test_an_epoch_is_not_said_as_many(trained: Project) -> None:
    assert trained.ht("epoch", "--dry-run").out.startswith("would run 1 epoch with estimator")
    assert trained.ht("epoch", "--n", "2", "--dry-run").out.startswith("would run 2 epochs with estimator")


KEYS: dict[tuple[str, ...], tuple[str, set[str]]] = {
    ("log",): ("log", {"items", "truncated"}),
    ("status",): (
        "status",
        {
            *("baseline", "baseline_run", "baseline_score", "branch", "candidates", "dirty", "epochs", "failures"),
            *("holders", "incomplete_runs", "open_epoch", "promoted", "promoted_by_hand", "resumed_by", "server"),
            "verdicts",
        },
    ),
    ("watch", "--once"): ("watch", {"epoch", "epochs", "holders", "judged", "promoted", "runs", "state", "verdicts"}),
    ("rev-parse", "@"): ("commits", {"items", "truncated"}),
    ("diff", "@~1..@"): (
        "divergences",
        {"items", "truncated", "regime", "same", "proven", "not_needed", "missing"},
    ),
    ("diff", "@~1..@", "--patch"): ("patch", {"base", "cand", "patch"}),
    ("verify",): ("verification", {"items", "truncated", "checked"}),
    ("fsck",): ("findings", {"items", "truncated"}),
    ("export", "verdict"): ("verdict", {"items", "truncated"}),
    ("db", "check"): ("schema", {"found", "head", "status"}),
    ("config", "measure"): ("settings", {"items", "truncated"}),
    ("tasks", "list"): ("tasks", {"items", "truncated", "panel", "digest"}),
    ("tasks", "check"): ("checks", {"items", "truncated", "panel", "ok"}),
    ("tasks", "oracle", "--noop"): ("oracle", {"items", "truncated", "panel", "noop", "solved"}),
    ("cache", "stats"): ("caches", {"items", "truncated"}),
    ("model", "list"): ("models", {"items", "truncated"}),
    ("doctor",): ("doctor", {"items", "truncated", "ok"}),
    ("serve-llm", "--status"): (
        "server",
        {
            *("already", "condition", "detached", "endpoint", "engine", "fingerprint", "log", "pid", "signal", "since"),
            "url",
        },
    ),
    ("evaluate",): (
        "run",
        {
            *("cells", "commit", "complete", "done", "executed", "from_caches", "infra", "not_needed", "panel", "run"),
            *("endpoint", "solved", "split", "tokens"),
        },
    ),
    ("evaluate", "--dry-run"): (
        "estimate",
        {"cells", "commit", "done", "early_stop", "endpoint", "panel", "run", "seconds", "split", "to_run", "tokens"},
    ),
    ("evaluate", "@~1..@"): ("runs", {"items", "truncated"}),
    ("certify", "@"): ("certificates", {"items", "truncated", "runs", "executed", "played"}),
    ("judge", "@~1..@"): (
        "verdict",
        {
            *("base", "base_attempts", "base_commit", "base_run", "cand", "cand_attempts", "cand_commit", "cand_run"),
            *("certificates", "certified", "criterion", "decision", "detectable", "excluded", "gained", "hollow", "id"),
            *("inputs", "loss", "lost", "p_value", "proven_unchanged", "regime", "sentence", "unmeasurable"),
        },
    ),
    ("promote", "@"): ("promotion", {"applied", "commit", "detail", "dry_run", "target", "verdict"}),
    ("harness", "check", "--no-tests"): ("violations", {"items", "truncated", "tests"}),
}
"""Commands that change nothing here: the kind of their object, and every key besides the envelope's."""


@pytest.mark.parametrize("argv", KEYS, ids=" ".join)
def test_every_key_is_always_there(trained: Project, argv: tuple[str, ...]) -> None:
    kind, keys = KEYS[argv]
    ran = trained.ht(*argv, "--json")
    found = parsed(ran)
    assert ran.code == 0, ran.err
    assert (found["kind"], found["error"]) == (kind, None)
    assert set(found) - ENVELOPE == keys
    if "truncated" in keys:
        assert found["truncated"] is False


def test_an_error_is_an_object_too(trained: Project) -> None:
    def error(*argv: str) -> dict[str, Any]:
        ran = trained.ht(*argv, "--json")
        found = parsed(ran)
        assert ran.err.startswith("answer: no, " if ran.code == 3 else "error: ")
        assert set(found["error"]) >= {"kind", "message", "hint"}
        assert found["error"]["message"].splitlines()[0] in ran.err
        return dict(found["error"])

    assert error("evaluate", "nope")["kind"] == "not_found"
    assert error("evaluate", "--bogus")["kind"] == "usage"
    assert error("bogus")["kind"] == "usage"
    assert error("epoch", "--n", "many")["kind"] == "usage"
    assert error("show")["kind"] == "usage"
    assert error("evaluate", "--set", "measure.jbos=3")["kind"] == "usage"
    assert error("diff", "@~1..@", "--exit-code")["kind"] == "answer_no"


def test_a_result_and_its_error_are_one_object(trained: Project) -> None:
    ran = trained.ht("judge", "@~1..@", "--json", "--criterion", "total-solves", "--exit-code")
    assert parsed(ran)["error"] is None
    ran = trained.ht("promote", "e2", "--exit-code", "--json")
    found = parsed(ran)
    assert ran.code == 3
    assert (found["kind"], found["applied"], found["error"]["kind"]) == ("promotion", False, "answer_no")
