"""Reports from a real store: what they say, that they are stable, and that foreign text cannot act."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.core.records.candidate import Candidate, CandidateStatus
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.llm import Endpoint, Sampling, Usage
from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.core.records.sandbox import SandboxIdentity
from harnesstrain.core.records.task import Panel, PanelTask
from harnesstrain.core.records.verdict import Epoch, Memo, Promotion, Verdict
from harnesstrain.judge import StrictPareto, compare
from harnesstrain.stages.report import (
    ReportSpec,
    build,
    log,
    sparkline,
    status,
    to_json,
    to_markdown,
    to_text,
)
from harnesstrain.stages.report.history import comparable, curve, epoch_rows
from harnesstrain.stages.report.live import KINDS, Watch
from harnesstrain.stages.report.plain import one_line, plain
from harnesstrain.stages.report.summary import checks, summary
from harnesstrain.stages.report.tables import Table, escaped, fenced
from harnesstrain.store import Store

ENDPOINT = Endpoint(engine="embedded", model="small-coder", context_length=4096, deterministic=True)
SOLVED, FAILED, LIMIT = "solved", "failed_verification", "no_submit:step_limit"
EVIL = "\x1b[31mred\x1b]8;;http://evil\x07link\x1b]8;;\x07 <script>alert(1)</script> ```\n# forged | heading \u202e"


class History:
    """A store filled step by step, the way stages fill one."""

    def __init__(self, store: Store, *, deterministic: bool = True) -> None:
        self.store = store
        self.regime = Regime(
            endpoint=ENDPOINT.fingerprint,
            deterministic=deterministic,
            sampling=Sampling(seed=12345, max_tokens=192),
            context_length=4096,
            sandbox=SandboxIdentity(kind="local", image=digest("host"), pins="1"),
        )
        store.put_endpoint(ENDPOINT)
        store.put_regime(self.regime)

    def run(self, commit: str, outcomes: Mapping[str, str], *, split: str = "train", **changes: Any) -> Run:
        panel = Panel(name="quick", tasks=tuple(PanelTask(name=n, digest=digest(n), split=split) for n in outcomes))
        self.store.put_panel(panel)
        regime = self.regime.digest
        run = Run(
            id=Run.identify(commit, panel.digest, regime, (1,)),
            commit=commit,
            panel=panel.digest,
            panel_name="quick",
            split=split,
            regime=regime,
            seeds=(1,),
        )
        self.store.put_run(run)
        for task, outcome in outcomes.items():
            self.store.commit_rollout(self.rollout(run, task, outcome, **changes), None)
        self.store.complete_run(run.id)
        return run

    @staticmethod
    def rollout(run: Run, task: str, outcome: str, **changes: Any) -> Rollout:
        kind, _, reason = outcome.partition(":")
        values: dict[str, Any] = {"llm_calls": 5, "usage": Usage(prompt=2000, completion=300), "recorded_time": 1.5}
        values.update(changes)
        return Rollout(
            id=run.rollout_id(task, 1),
            run=run.id,
            task=task,
            task_digest=digest(task),
            seed=1,
            outcome=Outcome(kind),
            reason=reason or None,
            reward=float(kind == SOLVED),
            actions=3,
            chain_digest=digest([run.commit, task]),
            requests_digest=digest([run.commit, task]),
            **values,
        )

    def certify(self, run: Run, results: Mapping[str, str]) -> None:
        for task, result in results.items():
            chain = digest([run.commit, task])
            certificate = Certificate(
                id=digest([chain, result]),
                kind="env",
                run=run.id,
                regime=run.regime,
                task=task,
                task_digest=digest(task),
                seed=1,
                chain=chain,
                result=Certified(result),
                step=2 if result == "forked" else None,
                command="date +%N" if result == "forked" else None,
            )
            self.store.put_certificate(certificate)

    def judge(self, base: Run, cand: Run) -> Verdict:
        rollouts = self.store.rollouts
        verdict = StrictPareto().judge(
            compare(base, cand, rollouts(base.id), rollouts(cand.id), self.store.certificates())
        )
        self.store.put_verdict(verdict)
        return verdict

    def candidate(self, base: str, commit: str | None, hypothesis: str, **changes: Any) -> Candidate:
        candidate = Candidate(
            id=digest([base, commit, hypothesis]),
            status=CandidateStatus.CANDIDATE if commit else CandidateStatus.NO_CANDIDATE,
            base=base,
            commit=commit,
            estimator="patches",
            hypothesis=hypothesis,
            **changes,
        )
        self.store.put_candidate(candidate)
        return candidate

    def promote(self, verdict: Verdict) -> Promotion:
        promotion = Promotion(
            id=digest(verdict.id),
            verdict=verdict.id,
            branch="main",
            old=verdict.base_commit,
            new=verdict.cand_commit,
            state="intended",
        )
        self.store.put_promotion(promotion)
        done = promotion.model_copy(update={"state": "done"})
        self.store.put_promotion(done)
        return done


A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)


def trained(history: History) -> None:
    """Three epochs: promoted, rejected, skipped; a holdout run; a memo that misbehaves."""
    store = history.store
    first = history.run(A, {"t1": SOLVED, "t2": FAILED, "t3": LIMIT, "t4": FAILED})
    history.certify(first, {"t1": "exact", "t2": "equivalent", "t3": "exact", "t4": "forked"})
    one = history.candidate(A, B, "tolerate a code fence | in replies")
    second = history.run(B, {"t1": SOLVED, "t2": SOLVED, "t3": FAILED, "t4": SOLVED})
    selected = history.judge(first, second)
    promotion = history.promote(selected)
    common = {"base_run": first.id, "candidate": one.id, "cand_run": second.id}
    store.put_epoch(Epoch(number=1, base=A, state="promoted", verdict=selected.id, promotion=promotion.id, **common))
    history.certify(second, {"t1": "exact", "t2": "exact", "t3": "exact"})
    two = history.candidate(B, C, EVIL)
    third = history.run(C, {"t1": FAILED, "t2": SOLVED, "t3": SOLVED, "t4": "infra_llm"}, isolated=False)
    rejected = history.judge(second, third)
    common = {"base_run": second.id, "candidate": two.id, "cand_run": third.id}
    store.put_epoch(Epoch(number=2, base=B, state="rejected", reason=EVIL, verdict=rejected.id, **common))
    none = history.candidate(B, None, "", reason="the estimator changed nothing")
    store.put_epoch(Epoch(number=3, base=B, base_run=second.id, candidate=none.id, state="skipped", reason=none.reason))
    history.run(A, {"h1": FAILED, "h2": FAILED}, split="holdout")
    history.run(B, {"h1": SOLVED, "h2": FAILED}, split="holdout")
    store.put_memo(Memo(id=digest("memo"), text=f"Fences matter.\n{EVIL}\n", epoch=2, author="patches"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / ".ht", create=True) as opened:
        yield opened


@pytest.fixture
def history(store: Store) -> History:
    history = History(store)
    trained(history)
    return history


def test_the_newest_verdict_is_reported(history: History) -> None:
    report = build(history.store)
    assert (report.header.base_commit, report.header.cand_commit) == (B, C)
    assert report.header.model is not None
    assert report.header.model.model == "small-coder"
    shown = report.verdict
    assert shown is not None
    assert (shown.decision, shown.criterion) == ("rejected", "strict-pareto")
    assert [flip.task for flip in shown.gained] == ["t3"]
    assert [flip.task for flip in shown.lost] == ["t1"]
    assert shown.p_value == 0.75
    assert [(one.task, one.reason) for one in report.unmeasurable] == [("t4", "infra_llm")]
    assert (report.base.solved, report.cand and report.cand.solved, shown.compared) == (2, 2, 3)


def test_a_chosen_verdict_shows_what_was_excluded_and_how_outcomes_moved(history: History) -> None:
    verdict = history.store.verdicts()[0]
    report = build(history.store, ReportSpec(verdict=verdict.id))
    assert report.verdict is not None
    assert report.verdict.decision == "selected"
    assert [(one.task, one.reason, one.detail) for one in report.excluded] == [("t4", "forked", "step 2: date +%N")]
    assert [flip.task for flip in report.verdict.hollow] == ["t3"]
    assert (report.certification.certified, report.certification.cells) == (3, 4)
    assert report.certification.results["forked"] == ("t4",)
    assert [(one.base, one.cand, one.cells) for one in report.transitions] == [
        ("solved", "solved", ("t1",)),
        ("failed_verification", "solved", ("t2",)),
        ("no_submit:step_limit", "failed_verification", ("t3",)),
    ]
    assert report.header.tasks == 4


def test_epochs_lineage_and_holdout(history: History) -> None:
    report = build(history.store)
    assert [(row.number, row.state, row.solved, row.base_solved, row.cells) for row in report.epochs] == [
        (1, "promoted", 3, 1, 4),
        (2, "rejected", 2, 3, 4),
        (3, "skipped", None, 3, 4),
    ]
    assert report.epochs[0].gained == ("t2",)
    assert report.epochs[0].interval is not None
    assert [(one.old, one.new, one.state, one.epoch) for one in report.lineage] == [(A, B, "done", 1)]
    assert [(one.commit, one.split, one.solved, one.cells) for one in report.holdout] == [
        (A, "holdout", 0, 2),
        (B, "holdout", 1, 2),
    ]
    assert [(one.split, one.gained, one.lost, one.compared) for one in report.moved] == [
        ("holdout", ("h1",), (), 2),
        ("train", ("t2",), (), 3),
    ]
    assert "Whole lineage on holdout, aaaaaaaa → bbbbbbbb: +1 −0 of 2 compared cells, p = 0.5." in to_text(report)
    assert report.memo is not None
    assert (report.memo.epoch, report.memo.author) == (2, "patches")


def test_warnings_say_what_limits_belief(history: History, tmp_path: Path) -> None:
    warnings = "\n".join(build(history.store).warnings)
    assert "4 of 8 rollouts were not isolated" in warnings
    assert "1 of 4 cells were never certified" in warnings
    assert "holdout" not in warnings, "a rejected candidate need not be"
    assert "does not repeat itself" not in warnings
    with Store.open(tmp_path / "early", create=True) as early:
        fresh = History(early)
        fresh.judge(fresh.run(A, {"t1": FAILED}), fresh.run(B, {"t1": SOLVED}))
        assert "not measured on the holdout split" in "\n".join(build(early).warnings)
    first = history.store.verdicts()[0]
    assert "holdout" not in "\n".join(build(history.store, ReportSpec(verdict=first.id)).warnings)
    with Store.open(tmp_path / "other", create=True) as other:
        trained(History(other, deterministic=False))
        assert "does not repeat itself" in "\n".join(build(other).warnings)
    last = history.store.verdicts()[-1]
    fork = Certificate(id="f" * 64, kind="harness", commit=last.base_commit, task="t1", result=Certified.FORKED)
    history.store.put_certificate(fork)
    assert "The baseline's harness does not repeat itself on t1" in "\n".join(build(history.store).warnings)


def test_forks_are_named_as_far_as_the_panel_has_them(history: History) -> None:
    names = [f"n{index}" for index in range(8)]
    base, cand = (history.run(commit, dict.fromkeys(names, SOLVED)) for commit in (D, "e" * 40))
    for index, name in enumerate([*names[::-1], "elsewhere"]):
        fork = {"kind": "harness", "task": name, "task_digest": digest(name), "result": Certified.FORKED}
        history.store.put_certificate(Certificate(id=digest(["fork", index]), commit=D, **fork))
    history.store.put_certificate(Certificate(id=digest("e"), commit="e" * 40, **fork))
    warnings = "\n".join(build(history.store, ReportSpec(base_run=base.id, cand_run=cand.id)).warnings)
    assert "The baseline's harness does not repeat itself on n0, n1, n2, n3, n4 and 3 more: " in warnings
    assert "The candidate's harness does not repeat itself on 1 task of another panel: " in warnings


def test_a_rollout_without_a_command_is_not_called_certified(history: History) -> None:
    store = history.store
    run = history.run("f" * 40, {"t1": SOLVED})
    idle = history.rollout(run, "t2", SOLVED).model_copy(update={"chain_digest": None, "actions": 0})
    store.put_panel(panel := Panel(name="two", tasks=(PanelTask(name="t2", digest=digest("t2")),)))
    alone = run.model_copy(update={"id": digest("idle"), "panel": panel.digest})
    store.put_run(alone)
    store.commit_rollout(idle.model_copy(update={"id": alone.rollout_id("t2", 1), "run": alone.id}), None)
    text = to_text(build(store, ReportSpec(base_run=alone.id)))
    assert "Certified: 0 of 1 cells (1 ran no command: nothing to certify)." in text


def test_nothing_is_cut_but_on_a_terminal(history: History) -> None:
    long = "because " * 60 + "of that"
    history.candidate(B, D, long)
    history.store.put_epoch(Epoch(number=4, base=B, state="skipped", reason=long))
    report = build(history.store)
    assert long in to_text(report)
    assert long not in to_text(report, whole=False)
    assert "because bec…" in to_text(report, whole=False)


def test_runs_that_nobody_judged_are_compared_without_a_decision(history: History) -> None:
    runs = {run.commit: run.id for run in history.store.runs() if run.split == "train"}
    report = build(history.store, ReportSpec(base_run=runs[A], cand_run=runs[C]))
    assert report.verdict is not None
    assert report.verdict.decision is None
    assert [flip.task for flip in report.verdict.lost] == ["t1"]
    assert "Compared, not judged." in to_text(report)


def test_a_baseline_alone_is_reported(history: History) -> None:
    runs = {run.commit: run.id for run in history.store.runs() if run.split == "train"}
    report = build(history.store, ReportSpec(base_run=runs[C]))
    assert report.verdict is None
    assert (report.base.solved, report.cand) == (2, None)
    assert [one.task for one in report.unmeasurable] == ["t4"]
    assert "candidate" not in to_text(report).split("Levers")[1].split("\n")[2]


def test_an_empty_store_says_what_to_do(store: Store) -> None:
    with pytest.raises(NotFound) as caught:
        build(store)
    assert "ht evaluate" in (caught.value.hint or "")
    with pytest.raises(NotFound):
        build(store, ReportSpec(verdict="0" * 64))
    with pytest.raises(UsageError):
        build(store, ReportSpec(cand_run="0" * 64))


def test_runs_of_different_panels_are_refused(history: History) -> None:
    train, *_, holdout = history.store.runs()
    with pytest.raises(UsageError, match="not comparable"):
        build(history.store, ReportSpec(base_run=train.id, cand_run=holdout.id))


def test_same_records_same_bytes(history: History, tmp_path: Path) -> None:
    with Store.open(tmp_path / "again", create=True) as again:
        trained(History(again))
        for spec in (ReportSpec(), ReportSpec(verdict=again.verdicts()[0].id)):
            one, two = build(history.store, spec), build(again, spec)
            assert to_text(one) == to_text(two) == to_text(build(history.store, spec))
            assert to_markdown(one) == to_markdown(two)
            assert json.dumps(to_json(one)) == json.dumps(to_json(two))


def test_json_is_valid_and_whole(history: History) -> None:
    report = build(history.store)
    body = json.dumps(to_json(report), allow_nan=False)
    loaded = json.loads(body)
    assert loaded["verdict"]["loss"] == "Infinity"
    assert type(report).model_validate(loaded) == report


def test_foreign_text_cannot_act(history: History) -> None:
    report = build(history.store)
    for rendered in (to_text(report), to_markdown(report), json.dumps(to_json(report), ensure_ascii=False)):
        assert "\x1b" not in rendered
        assert "\u202e" not in rendered
        assert "evil" not in rendered
    page = to_markdown(report)
    outside, memo = page.split("## Memo")
    assert "<script>" not in outside
    assert "\n# forged" not in outside
    assert "````text\n" in memo
    assert memo.rstrip().endswith("````")


def test_text_and_markdown_carry_the_same_sections(history: History) -> None:
    report = build(history.store, ReportSpec(verdict=history.store.verdicts()[0].id))
    text, page = to_text(report), to_markdown(report)
    for title in ("What was measured", "Epochs", "Verdict", "Flips", "Levers", "Not compared", "Lineage", "Memo"):
        assert f"\n{title}\n" in text
        assert f"\n## {title}\n" in page
    assert "Selected by strict-pareto, loss -1: gained t2, lost nothing." in text
    assert "Certified: 3 of 4 cells (forked: t4)." in text
    assert "Baseline solves ▃▆▆  1 → 3 of 4." in text


def test_log_has_one_row_per_epoch_and_per_candidate_made_by_hand(history: History) -> None:
    history.candidate(B, D, "by hand")
    rows = log(history.store)
    assert [(row.epoch, row.state, row.mark) for row in rows] == [
        (1, "promoted", "▲"),
        (2, "rejected", "×"),
        (3, "skipped", "○"),
        (None, "candidate", "·"),
    ]
    assert rows[0].gained == ("t2",)
    assert rows[1].score is not None
    assert (rows[1].score.solved, rows[1].score.cells, rows[1].score.unmeasurable) == (2, 4, 1)
    assert "\x1b" not in rows[1].hypothesis + rows[1].reason


def test_candidates_made_by_hand_are_judged_and_promoted_in_the_log(history: History) -> None:
    runs = {run.commit: run for run in history.store.runs() if run.split == "train"}
    history.candidate(B, D, "by hand")
    better = history.run(D, {"t1": SOLVED, "t2": SOLVED, "t3": SOLVED, "t4": SOLVED})
    verdict = history.judge(runs[B], better)
    assert log(history.store)[-1].state == "selected"
    history.promote(verdict)
    last = log(history.store)[-1]
    assert (last.state, last.gained, last.reason) == ("promoted", ("t3",), "gained t3, lost nothing")


def test_a_change_promoted_by_hand_counts(store: Store) -> None:
    history = History(store)
    first = history.run(A, {"t1": SOLVED, "t2": FAILED})
    none = history.candidate(A, None, "", reason="nothing to do")
    store.put_epoch(Epoch(number=1, base=A, base_run=first.id, candidate=none.id, state="skipped", reason=none.reason))
    assert "No change was promoted that solves a further task." in summary(build(store)).happened
    history.candidate(A, B, "by hand")
    history.promote(history.judge(first, history.run(B, {"t1": SOLVED, "t2": SOLVED})))
    told = summary(build(store))
    assert "No change was promoted" not in " ".join(told.happened)
    assert "1 change was promoted by hand." in told.happened
    assert any(one.startswith("The epochs' baseline went from 1 to 1 of 2 solved") for one in told.happened)
    assert told.helped == (f"{B[:8]} by hand “by hand”: gained t2",)
    assert (status(store).promoted, status(store).promoted_by_hand) == (1, 1)
    assert Watch(store.feed(KINDS), store).look().promoted == 1


def test_environments_that_nobody_executed_again_are_not_checked(store: Store) -> None:
    history = History(store)
    first = history.run(A, {"t1": SOLVED, "t2": FAILED})
    (check,) = [one for one in checks(build(store)) if "environments" in one.question]
    assert (check.answer, check.told) == (
        "not known",
        "Not checked: no baseline cell was executed again.",
    )
    history.certify(first, {"t1": "exact"})
    (check,) = [one for one in checks(build(store)) if "environments" in one.question]
    assert check.told.startswith("1 of 2 baseline cells gave the same outputs")


def test_what_was_judged_by_hand_is_in_the_log(history: History) -> None:
    runs = {run.commit: run for run in history.store.runs() if run.split == "train"}
    verdict = history.judge(runs[A], runs[C])
    last = log(history.store)[-1]
    assert (last.epoch, last.candidate, last.verdict, last.commit) == (None, None, verdict.id, C)
    assert (last.state, last.reason) == (verdict.decision, f"{A[:8]}..{C[:8]}: {verdict.sentence}")
    history.judge(runs[A], runs[C])
    assert len(log(history.store)) == 4, "judged again: the same verdict"


def test_status_scores_one_panel_of_one_version(history: History, store: Store) -> None:
    before = status(store, A)
    holdout = next(run for run in store.runs() if (run.commit, run.split) == (A, "holdout"))
    found = status(store, A, panel=holdout.panel)
    assert before.baseline_run != found.baseline_run == holdout.id
    assert found.baseline_score is not None
    assert (found.baseline_score.solved, found.baseline_score.cells, found.baseline_score.missing) == (0, 2, 0)
    assert status(store, C, panel=holdout.panel).baseline_score is None
    begun = holdout.model_copy(update={"id": digest("begun"), "salt": "x y"})
    store.put_run(begun)
    store.commit_rollout(history.rollout(begun, "h1", SOLVED), None)
    partial = status(store, A, panel=holdout.panel)
    assert partial.baseline_score is not None
    assert (partial.baseline_score.cells, partial.baseline_score.missing) == (1, 1)
    assert partial.resumed_by == {begun.id: "ht evaluate aaaaaaaa --split holdout --fresh 'x y'"}


def test_status_scores_a_whole_run_rather_than_a_newer_one_that_stopped_early(store: Store) -> None:
    history = History(store)
    whole = history.run(A, {"t1": FAILED, "t2": SOLVED, "t3": SOLVED})
    early = whole.model_copy(update={"id": digest("early"), "salt": "again", "early_stop_against": digest("other")})
    store.put_run(early)
    store.commit_rollout(history.rollout(early, "t1", FAILED), None)
    store.complete_run(early.id)
    found = status(store, A, panel=whole.panel)
    assert found.baseline_run == whole.id
    assert found.baseline_score is not None
    assert (found.baseline_score.solved, found.baseline_score.cells) == (2, 3)


def test_status_says_where_things_stand(history: History, store: Store) -> None:
    found = status(store)
    assert found.baseline == B
    assert found.baseline_score is not None
    assert found.baseline_score.solved == 3
    assert (found.epochs, found.promoted, found.failures, found.candidates, found.verdicts) == (3, 1, 1, 2, 2)
    assert found.open_epoch is None
    assert found.incomplete_runs == ()
    store.put_epoch(Epoch(number=4, base=B, state="started"))
    partial = Run(id=digest("partial"), **store.runs()[0].model_dump(exclude={"id"}))
    store.put_run(partial)
    again = status(store, baseline=C)
    assert again.open_epoch is not None
    assert again.open_epoch.number == 4
    assert again.failures == 0
    assert again.incomplete_runs == (partial.id,)
    assert again.baseline == C


def test_status_of_an_empty_store(store: Store) -> None:
    found = status(store)
    assert (found.baseline, found.baseline_score, found.epochs) == (None, None, 0)
    assert log(store) == ()


def test_sparklines() -> None:
    assert sparkline([0, 1, 2, 4], 4) == "▁▃▅█"
    assert sparkline([9], 4) == "█"
    assert sparkline([0, 0], 0) == "▁▁"
    assert sparkline([], 4) == ""


@given(st.text(alphabet=st.sampled_from("\x1b[]0;1m\x07\\P\x9b\x9d\r\n\tab\u202e\u200b")))
def test_plain_text_holds_no_control_and_plain_is_idempotent(text: str) -> None:
    shown = plain(text)
    assert not set(shown) & set("\x1b\x07\x9b\x9d\r\u202e\u200b")
    assert plain(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x08b\x00c", "abc"),
        ("\x1b\x1b[31m[31mx", "[31mx"),
        ("tab\tand\r\nline", "tab\tand\nline"),
        ("\ud800", "?"),
    ],
)
def test_plain(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_one_line_is_one_short_line(text: str) -> None:
    shown = one_line(text, 20)
    assert len(shown) <= 20
    assert len(shown.splitlines()) <= 1


@given(st.text(alphabet="`a\n", max_size=40))
def test_a_fence_is_longer_than_any_inside(text: str) -> None:
    first, *body, last = fenced(text)
    assert first == f"{last}text"
    assert not any(line.startswith(last) for line in body)


def test_tables_align_wide_characters_and_escape_pipes() -> None:
    table = Table(heads=("name", "n"), rows=(("日本", "1"), ("a|b", "20")), right=("n",))
    assert table.text("") == ["name   n", "日本   1", "a|b   20"]
    assert table.markdown()[1:] == ["| --- | ---: |", "| 日本 | 1 |", "| a\\|b | 20 |"]
    assert escaped("<b>@you &c") == "\\<b\\>&#64;you &amp;c"


def test_flips_that_were_measured_after_an_early_verdict_are_told_too(store: Store) -> None:
    history = History(store)
    base = history.run(A, {"t1": FAILED, "t2": FAILED, "t3": FAILED})
    run = base.model_copy(
        update={
            "id": Run.identify(B, base.panel, base.regime, base.seeds),
            "commit": B,
            "early_stop_against": base.id,
        }
    )
    store.put_run(run)
    store.commit_rollout(history.rollout(run, "t1", SOLVED), None)
    tasks = [task.name for task in store.panel(base.panel).tasks]
    early = StrictPareto().judge(
        compare(base, run, store.rollouts(base.id), store.rollouts(run.id), store.certificates(), tasks=tasks)
    )
    store.put_verdict(early)
    assert (early.selected, early.not_needed) == (True, 2)
    candidate = history.candidate(A, B, "tolerate a fence")
    promotion = history.promote(early)
    store.put_epoch(
        Epoch(
            number=1,
            base=A,
            base_run=base.id,
            candidate=candidate.id,
            cand_run=run.id,
            verdict=early.id,
            promotion=promotion.id,
            state="promoted",
        )
    )
    assert build(store).epochs[0].later == ()
    store.commit_rollout(history.rollout(run, "t2", SOLVED), None)
    store.commit_rollout(history.rollout(run, "t3", FAILED), None)
    store.put_run(run.model_copy(update={"early_stop_against": None}))
    row = build(store).epochs[0]
    assert [flip.task for flip in row.flips] == ["t1"]
    assert [flip.task for flip in row.later] == ["t2"]
    assert "e1 “tolerate a fence”: gained t1, t2." in to_text(build(store))
    shown = build(store).verdict
    assert shown is not None
    assert [flip.task for flip in shown.gained] == ["t1", "t2"]
    assert (shown.compared, shown.not_needed, shown.decision) == (3, 0, "selected")
    assert "decided after 1 cells; the others were measured since" in shown.sentence
    assert "went from 0 to 2 of 3" in to_text(build(store))


def test_only_tasks_that_the_loop_never_saw_are_called_so(history: History) -> None:
    held = [run for run in history.store.runs() if run.split == "holdout"]
    report = build(history.store, ReportSpec(base_run=held[0].id, cand_run=held[1].id))
    assert [(one.split, one.chosen) for one in report.moved] == [("holdout", False), ("train", True)]
    text = to_text(report)
    assert "on holdout, which no epoch was judged by" in text
    assert "on train, by which the loop chose" in text
    assert "solved on panel" not in text, "the epochs were measured on other tasks"


def test_what_nobody_looked_at_is_not_known(store: Store) -> None:
    history = History(store)
    base = history.run(A, {"t1": FAILED, "t2": SOLVED})
    history.judge(base, history.run(B, {"t1": SOLVED, "t2": SOLVED}))
    answers = {one.question: one.answer for one in checks(build(store))}
    assert answers["Do the environments repeat themselves?"] == "not known"
    assert answers["Is the change what moved the outcomes?"] == "not known"
    history.certify(base, {"t1": "forked"})
    assert {one.question: one.answer for one in checks(build(store))}["Do the environments repeat themselves?"] == "no"


def test_versions_that_no_epoch_measured_have_columns_of_their_own(history: History) -> None:
    held = [run for run in history.store.runs() if run.split == "holdout"]
    matrix = build(history.store, ReportSpec(base_run=held[0].id, cand_run=held[1].id)).matrix
    assert [column.name for column in matrix.columns] == [A[:8], B[:8]]
    assert [(row.task, [place.state for place in row.places]) for row in matrix.rows] == [
        ("h1", ["failed", "solved"]),
        ("h2", ["failed", "failed"]),
    ]


def test_cells_that_the_infrastructure_failed_are_not_counted_as_measured(history: History) -> None:
    row = build(history.store).epochs[1]
    assert (row.solved, row.cells, row.unmeasurable) == (2, 4, 1)
    assert "2/3, 1 unmeasurable" in to_text(build(history.store))


def test_heads_of_a_markdown_table_are_text_too() -> None:
    table = Table(heads=("a <b>|x",), rows=(("1",),))
    assert table.markdown()[0] == r"| a \<b\>\|x |"


def test_no_curve_joins_two_models(history: History) -> None:
    store = history.store
    before = curve(epoch_rows(store))
    assert (before, len(before)) == ((1, 3, 3), 3)
    other = ENDPOINT.model_copy(update={"model": "large-coder"})
    store.put_endpoint(other)
    history.regime = history.regime.model_copy(update={"endpoint": other.fingerprint})
    store.put_regime(history.regime)
    again = history.run(B, {"t1": SOLVED, "t2": SOLVED, "t3": SOLVED, "t4": SOLVED})
    none = history.candidate(B, None, "", reason="nothing to do")
    store.put_epoch(Epoch(number=4, base=B, base_run=again.id, candidate=none.id, state="skipped", reason=none.reason))
    store.put_epoch(Epoch(number=5, base=B, candidate=none.id, state="skipped", reason=none.reason))
    rows = epoch_rows(store)
    assert [row.number for row in comparable(rows)] == [4, 5]
    assert curve(rows) == (4,)
    told = " ".join(summary(build(store)).happened)
    assert "Since e4 the baseline went from 4 to 4 of 4 solved" in told
    assert "3 epochs before that ran on another model or panel: no curve joins them." in told
    assert "4 → 4 of 4 since e4, on another model or panel before." in to_markdown(build(store))
