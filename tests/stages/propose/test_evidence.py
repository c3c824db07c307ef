"""What an estimator is shown: train tasks and what was tried; nothing of holdout tasks, verifiers or the machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harnesstrain.core.digests import digest
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Rollout, Step, StepKind, Trace
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.task import Panel, PanelTask
from harnesstrain.core.records.verdict import Memo
from harnesstrain.stages.propose import evidence
from harnesstrain.stages.propose.base import Evidence
from tests.stages.propose.conftest import MakeProject
from tests.stages.propose.making import CANARY, Project
from tests.stages.propose.test_propose_stage import writes
from tests.stages.test_report import FAILED, LIMIT, SOLVED, B, C, History


@pytest.fixture
def made(project: MakeProject) -> Project:
    return project("", environ={"OTHER": "other-value-1"})


@pytest.fixture
def history(made: Project) -> History:
    return History(made.context.store)


def staged(made: Project, directory: Path, run: Run | None = None, base: str | None = None) -> Evidence:
    place = directory / f"evidence{len(list(directory.glob('evidence*')))}"
    place.mkdir()
    return evidence.stage(made.context, place, base or made.base, 3, run.id if run else None)


def whole(shown: Evidence) -> str:
    """Everything an estimator can read, names included."""
    files = [path for path in sorted(shown.directory.rglob("*")) if path.is_file()]
    return shown.model_dump_json() + "".join(f"{path.name}\n{path.read_text()}" for path in files)


def mixed(history: History, commit: str, outcomes: Mapping[str, tuple[str, str]], split: str | None) -> Run:
    """A run over tasks of several splits."""
    tasks = tuple(PanelTask(name=name, digest=digest(name), split=part) for name, (part, _) in outcomes.items())
    panel = Panel(name="mixed", tasks=tasks)
    history.store.put_panel(panel)
    regime = history.regime.digest
    run = Run(
        id=Run.identify(commit, panel.digest, regime, (1,), str(split)),
        commit=commit,
        panel=panel.digest,
        panel_name="mixed",
        split=split,
        regime=regime,
        seeds=(1,),
        salt=str(split),
    )
    history.store.put_run(run)
    for name, (part, outcome) in outcomes.items():
        if split in (None, part):
            history.store.commit_rollout(history.rollout(run, name, outcome), None)
    history.store.complete_run(run.id)
    return run


def test_before_anything_was_measured(made: Project, tmp_path: Path) -> None:
    shown = staged(made, tmp_path)
    names = sorted(path.relative_to(shown.directory).as_posix() for path in shown.directory.rglob("*"))
    assert names == ["ledger.md", "memo.md", "program.md", "summary.md", "tasks", "tried"]
    assert (shown.directory / "program.md").read_text() == "Keep it simple.\n"
    assert (shown.memo, shown.ledger, shown.epoch, shown.base) == ("", (), 3, made.base)
    assert shown.summary == "The baseline was not measured yet.\n"
    assert (shown.directory / "ledger.md").read_text() == "Nothing was tried yet.\n"


def test_the_newest_train_run_of_the_baseline_is_shown(made: Project, history: History, tmp_path: Path) -> None:
    history.run(made.base, {"t1": SOLVED, "t2": LIMIT})
    history.run(B, {"t9": SOLVED})
    made.context.store.put_memo(Memo(id="m" * 64, text="Fences matter.\n"))
    shown = staged(made, tmp_path)
    assert shown.summary.startswith(f"1 of 2 solved by {made.base[:8]}.\n")
    assert "| t2 | 1 | no_submit (step_limit) | 5 | 3 | - |" in shown.summary
    assert sorted(path.name for path in (shown.directory / "tasks").iterdir()) == ["t1.s1.md", "t2.s1.md"]
    assert "Nothing was recorded of it." in (shown.directory / "tasks/t1.s1.md").read_text()
    assert shown.memo == (shown.directory / "memo.md").read_text() == "Fences matter.\n"
    assert "t9" not in whole(shown)


def test_a_page_tells_the_story_of_a_task_but_not_its_verifier_s(
    made: Project, history: History, tmp_path: Path
) -> None:
    run = history.run(made.base, {})
    rollout = history.rollout(run, "a/b", FAILED, detail="the verifier expected seventeen")
    ask = {"role": "user", "content": "Count the files."}
    again = {"role": "user", "content": "x" * 5000}
    messages = {digest(ask): ask, digest(again): again}
    steps = (
        Step(index=0, kind=StepKind.LLM, messages=(digest(ask),), content="```sh\nls\n```", finish_reason="stop"),
        Step(index=1, kind=StepKind.RUN, action='{"run": "ls"}', exit_code=2, stdout=b"a\xff\n", stderr=b"no such"),
        Step(index=2, kind=StepKind.LLM, messages=(digest(ask), digest(again)), error="context_overflow"),
        Step(index=3, kind=StepKind.NOTE, note='{"valid": true}'),
    )
    made.context.store.commit_rollout(rollout, Trace(rollout=rollout.id, steps=steps, messages=messages, log="Boom\n"))
    shown = staged(made, tmp_path, run)
    page = (shown.directory / "tasks/a_b.s1.md").read_text()
    for part in ("# a/b\n\nOutcome: failed_verification\n", "    Count the files.", "    ls", "exit 2", "    no such"):
        assert part in page
    assert page.count("Count the files.") == 1
    assert "error: context_overflow" in page and "characters left out" in page and len(page) < 4000
    assert '    {"valid": true}' in page and page.endswith("## Harness log\n\n    Boom\n")
    assert "seventeen" not in whole(shown)


def test_an_error_of_the_harness_is_told(made: Project, history: History, tmp_path: Path) -> None:
    run = history.run(made.base, {})
    crash = Rollout.model_validate(
        {
            **history.rollout(run, "t1", "policy_crash").model_dump(),
            "reward": None,
            "detail": "the harness exited with 1: KeyError",
        }
    )
    made.context.store.commit_rollout(crash, None)
    assert "Detail: the harness exited with 1: KeyError" in whole(staged(made, tmp_path, run))


def test_the_newest_attempt_counts(made: Project, history: History, tmp_path: Path) -> None:
    run = history.run(made.base, {"t1": "infra_llm"})
    again = history.rollout(run, "t1", SOLVED, attempt=2)
    made.context.store.commit_rollout(again.model_copy(update={"id": run.rollout_id("t1", 1, 2)}), None)
    assert staged(made, tmp_path, run).summary.startswith("1 of 1 solved")


def test_hidden_tasks_are_never_shown(made: Project, history: History, tmp_path: Path) -> None:
    outcomes = {"t1": ("train", FAILED), "hide1": ("holdout", SOLVED), "hide2": ("sealed", FAILED)}
    run = mixed(history, made.base, outcomes, None)
    shown = staged(made, tmp_path, run)
    assert shown.summary.startswith("0 of 1 solved")
    assert "hide" not in whole(shown)
    mixed(history, made.base, outcomes, "holdout")
    assert staged(made, tmp_path).summary == "The baseline was not measured yet.\n"


def test_the_ledger_rests_on_train_tasks_alone(made: Project, history: History, tmp_path: Path) -> None:
    base, cand = made.base, B
    before = {"t1": ("train", FAILED), "hide1": ("holdout", SOLVED), "hide2": ("holdout", FAILED)}
    after = {"t1": ("train", SOLVED), "hide1": ("holdout", FAILED), "hide2": ("holdout", SOLVED)}
    history.candidate(base, cand, "tolerate a fence", epoch=1, source="01.patch")
    history.candidate(base, C, "show files", usage=Usage(prompt=7))
    for split in ("train", "holdout", None):
        history.judge(mixed(history, base, before, split), mixed(history, cand, after, split))
    history.judge(mixed(history, base, before, "holdout"), mixed(history, C, after, "holdout"))
    shown = staged(made, tmp_path)
    first, second = shown.ledger
    assert (first.result, first.gained, first.lost, first.epoch) == ("not promoted", ("t1",), (), 1)
    assert (first.source, first.base) == ("01.patch", base)
    assert (second.result, second.gained, second.reason) == ("not judged", (), "")
    assert "epoch 1: tolerate a fence → **not promoted**" in (shown.directory / "ledger.md").read_text()
    assert "hide" not in whole(shown)


def test_nothing_of_the_caller_s_environment_is_shown(made: Project, history: History, tmp_path: Path) -> None:
    shown = whole(staged(made, tmp_path, history.run(made.base, {"t1": SOLVED})))
    assert CANARY not in shown and "other-value-1" not in shown
    assert str(made.root) not in shown


def test_what_was_tried_is_shown_as_patches(made: Project, history: History, tmp_path: Path) -> None:
    first = made.propose(writes("prompts/system.md", "Hello.\n", hypothesis="greet"))
    made.propose(writes("harness.toml", "x"))
    second = made.propose(writes("prompts/long.md", "word " * 20_000, hypothesis="talk"))
    history.run(first.commit or "", {"t1": SOLVED, "t2": FAILED})
    shown = staged(made, tmp_path)
    patches = sorted((shown.directory / "tried").iterdir())
    assert [path.name for path in patches] == [f"01-{first.id[:8]}.patch", f"02-{second.id[:8]}.patch"]
    text = patches[0].read_text()
    assert text.startswith("Subject: greet\n\ndiff --git") and "-Hi.\n+Hello.\n" in text
    assert len(patches[1].read_text()) < 21_000
    assert (shown.directory / "candidate.md").read_text().startswith(f"1 of 2 solved by {(first.commit or '')[:8]}.")
