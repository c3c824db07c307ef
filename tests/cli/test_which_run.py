"""Which measurement of a version a command means: the newest complete pair, and how to go on with a broken one."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from tests.cli.conftest import parsed
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]


def changed(made: Project, skill: str = "one") -> str:
    """A commit with one skill more, on a branch of its own; returns its id.  The baseline stays checked out."""
    made.git("checkout", "-qb", f"with-{skill}")
    (made.root / "agent" / "skills" / skill).write_text("yes\n")
    made.git("add", "agent")
    made.git("commit", "-qm", f"Learn {skill}")
    commit = made.git("rev-parse", "HEAD")
    made.git("checkout", "-q", "main")
    return commit


def test_a_run_that_was_broken_off_stands_in_nobodys_way(project: Make) -> None:
    made = project()
    cand = changed(made)
    measured = made.ht("evaluate", f"main..{cand}")
    assert measured.code == 0, measured.err
    broken = made.ht("evaluate", "@", "--fresh", "twice over", "--max-tokens", "1", "--jobs", "1")
    assert broken.code == 5, broken.err
    judged = made.ht("judge", f"main..{cand}", "--json")
    assert judged.code == 0, judged.err
    verdict = parsed(judged)
    assert [verdict["base_run"], verdict["cand_run"]] == measured.lines
    for argv in (("certify", "env"), ("certify", "harness"), ("report", "--compare", f"main..{cand}")):
        ran = made.ht(*argv)
        assert ran.code == 0, ran.err
        assert "not complete" not in ran.out + ran.err
    assert made.ht("diff", f"main..{cand}").code == 0
    assert "`ht evaluate " in (status := made.ht("status").out)
    assert "--fresh 'twice over'` goes on with it" in status


def test_where_only_a_broken_run_is_there_the_hint_goes_on_with_it(project: Make) -> None:
    made = project()
    cand = changed(made)
    begun = made.ht("evaluate", "@", "--fresh", "x", "--max-tokens", "1", "--jobs", "1")
    assert begun.code == 5
    assert made.ht("evaluate", cand).code == 0
    refused = made.ht("judge", f"main..{cand}")
    assert refused.code == 5
    assert f"the baseline's run {begun.lines[0][:8]} (tiny/train, --fresh x) is not complete" in refused.err
    command = f"ht evaluate {made.git('rev-parse', 'main')[:8]} --split train --fresh x"
    assert f"hint: `{command}` goes on with it" in refused.err
    assert f"`{command}` goes on with it" in made.ht("certify", "harness", "@").err
    assert f"`{command}` goes on with it" in made.ht("certify", "env", "@").err
    resumed = made.ht(*command.split()[1:])
    assert (resumed.code, resumed.lines) == (0, begun.lines)
    assert made.ht("judge", f"main..{cand}").code == 0


def test_a_version_of_another_regime_is_told_by_its_fields(project: Make) -> None:
    made = project()
    first = made.ht("evaluate")
    assert "regime" not in first.err
    later = made.ht("evaluate", "--set", "budgets.steps=7")
    warnings = [line for line in later.err.splitlines() if "another regime" in line]
    (run,) = first.lines
    assert warnings == [
        f"  another regime than of run {run[:8]}: budgets.steps differs (30, now 7); earlier runs are not comparable"
    ]
    assert "another regime" not in made.ht("evaluate", "--set", "budgets.steps=7").err
    refused = made.ht("certify", "env", run, "--set", "budgets.steps=7")
    assert refused.code == 2
    assert f"run {run[:8]} was measured under another regime: budgets.steps differs (30, now 7)" in refused.err
    assert f"hint: `ht certify env {run[:8]} --set budgets.steps=30` certifies it as it was measured" in refused.err
    assert made.ht("certify", "env", run, "--set", "budgets.steps=30").code == 0


def test_a_criterion_that_is_not_there_is_said_before_any_work(project: Make) -> None:
    made = project()
    cand = changed(made)
    for argv in (
        ("evaluate", f"main..{cand}", "--early-stop"),
        ("judge", f"main..{cand}"),
        ("epoch",),
        ("promote", cand),
    ):
        ran = made.ht(*argv, "-c", "nonsense")
        assert (ran.code, ran.out) == (2, ""), argv
        assert ran.err.startswith("error: no 'nonsense' among criteria\n"), ran.err
    with made.store() as store:
        assert not list(store.runs())


def test_a_misspelt_part_is_no_run(project: Make) -> None:
    made = project()
    ran = made.ht("certify", "modle")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: 'modle' is neither model, env, harness nor a run or a version\n")
    assert "hint: did you mean `ht certify model`?" in ran.err
    assert made.ht("certify", "modle", "--dry-run").code == 2
    assert made.ht("certify", "@", "--dry-run").code == 0


def test_status_scores_the_baseline_on_the_configured_panel(project: Make) -> None:
    made = project()
    assert "solved    not measured on this panel and split" in made.ht("status").out
    (baseline,) = made.ht("evaluate").lines
    assert made.ht("evaluate", changed(made)).code == 0
    assert made.ht("evaluate", "--include", "two").code == 0
    shown = made.ht("status")
    assert "solved    1 of 3\n" in shown.out
    found = parsed(made.ht("status", "--json"))
    assert (found["baseline_run"], found["baseline_score"]["cells"]) == (baseline, 3)
    begun = made.ht("evaluate", "--fresh", "y", "--max-tokens", "1", "--jobs", "1").lines[0]
    partial = made.ht("status").out
    assert " of 1; 1 of 3 measured\n" in partial
    assert f"partial   run {begun[:8]}; `ht evaluate {made.git('rev-parse', 'main')[:8]} --split train" in partial


def test_a_version_is_decided_on_the_configured_split_whatever_was_measured_last(project: Make) -> None:
    made = project()
    listed = 'train = ["one", "two"]\nholdout = ["three"]\n'
    (made.root / "panel.toml").write_text(f'[panel]\nname = "tiny"\nsource = "tasks"\n{listed}')
    cand = changed(made, "three")
    assert made.ht("evaluate", f"main..{cand}", "--split", "holdout").code == 0
    refused = made.ht("promote", cand)
    assert (refused.code, refused.out) == (2, "")
    assert f"{cand[:8]} was measured on tiny/holdout, not on the configured panel and split (train)" in refused.err
    assert made.git("rev-parse", "main") != cand
    aside = made.ht("judge", f"..{cand}", "--dry-run")
    assert aside.code == 0 and "note: judged on tiny/holdout" in aside.err

    (on_train, _) = (made.ht("evaluate", f"main..{cand}").lines[1], made.ht("evaluate", cand, "--split", "holdout"))
    assert parsed(made.ht("judge", f"..{cand}", "--json"))["cand_run"] == on_train
    held = made.ht("promote", cand)
    assert (held.code, held.lines) == (0, ["rejected"]), held.err
    assert made.git("rev-parse", "main") != cand

    with made.store() as store:
        (beyond,) = [run.id for run in store.runs() if run.split == "holdout" and run.commit == cand]
    assert made.ht("promote", beyond[:8]).lines == [cand]


def partials(made: Project) -> list[str]:
    return [line for line in made.ht("status").lines if line.startswith("partial")]


def command_of(line: str) -> list[str]:
    return shlex.split(line.split("`")[1])[1:]


@pytest.mark.parametrize(
    "options",
    [
        ("--include", "t*"),
        ("--exclude", "two", "--seeds", "2"),
        ("--set", "budgets.steps=7", "--set", "llm.sampling.temperature=0.5"),
        ("--endpoint", "other.jsonl"),
        ("--set", "llm.script=other.jsonl", "--fresh", "a b"),
    ],
)
def test_what_status_prints_goes_on_with_exactly_that_run(project: Make, options: tuple[str, ...]) -> None:
    made = project()
    (made.root / "other.jsonl").write_text('{"reply": "ok", "duration": 2.0}\n')
    begun = made.ht("evaluate", *options, "--max-tokens", "1", "--jobs", "1")
    assert begun.code == 5, begun.err
    (line,) = partials(made)
    assert line.startswith(f"partial   run {begun.lines[0][:8]}; `ht evaluate ") and line.endswith("goes on with it")
    resumed = made.ht(*command_of(line))
    assert (resumed.code, resumed.lines) == (0, begun.lines), line
    assert not partials(made)


def test_where_it_cannot_be_told_status_claims_nothing(project: Make) -> None:
    made = project()
    begun = made.ht("evaluate", "--max-tokens", "1", "--jobs", "1")
    assert begun.code == 5, begun.err
    made.rules('{"reply": "ok", "duration": 3.0}\n')
    told = f"partial   run {begun.lines[0][:8]} of {made.git('rev-parse', 'main')[:8]} on tiny/train, 1 cell measured; "
    assert partials(made) == [told + "its model is another one now"]
    assert parsed(made.ht("status", "--json"))["resumed_by"] == {}
    (made.root / "tasks" / "one" / "instruction.md").write_text("Make /app/one, please: one\n")
    assert partials(made) == [told + "its tasks changed since"]


def test_status_tells_the_newest_broken_run_of_each_version_and_few_of_them(project: Make) -> None:
    made = project()
    commits = ["@", *(changed(made, name) for name in ("one", "three", "four"))]
    begun = [made.ht("evaluate", one, "--max-tokens", "1", "--jobs", "1").lines[0] for one in commits]
    newest = made.ht("evaluate", commits[-1], "--fresh", "y", "--max-tokens", "1", "--jobs", "1").lines[0]
    *told, more = partials(made)
    assert [line.split(";")[0].split()[-1] for line in told] == [run[:8] for run in (newest, begun[2], begun[1])]
    assert more == "partial   and 2 more; `ht status --json` lists them as incomplete_runs"
    assert len(parsed(made.ht("status", "--json"))["incomplete_runs"]) == 5


def test_a_version_that_is_no_harness_leaves_no_run(project: Make) -> None:
    made = project()
    (made.root / "harness.toml").write_text("nonsense\n")
    made.git("commit", "-qam", "Break it")
    assert made.ht("evaluate").code == 2
    assert made.ht("evaluate", "--dry-run").code == 2
    with made.store() as store:
        assert not list(store.runs())


def test_the_kind_of_sandbox_that_was_asked_for_is_asked_for_again(project: Make) -> None:
    made = project()
    asked = ("--set", "sandbox.kind=local", "--max-tokens", "1", "--jobs", "1")
    begun = made.ht("evaluate", *asked, HT_SANDBOX="auto")
    assert begun.code == 5, begun.err
    (line,) = [one for one in made.ht("status", HT_SANDBOX="auto").lines if one.startswith("partial")]
    assert "--set sandbox.kind=local` goes on with it" in line
    resumed = made.ht(*command_of(line), HT_SANDBOX="auto")
    assert (resumed.code, resumed.lines) == (0, begun.lines)
