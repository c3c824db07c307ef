"""The Python API on a real harness repo: real git, store, sandbox and harness; the model follows a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import Busy, Incomplete, NotFound, ProposalFailure, Unmeasurable, UsageError
from harnesstrain.core.events import Bus, Event
from harnesstrain.core.records.candidate import CandidateStatus, Proposal
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.verdict import Decision, Epoch, Promotion, Verdict
from harnesstrain.judge import Comparison
from harnesstrain.stages.propose.base import Diagnosis, Evidence, Workshop
from harnesstrain.trainer import GreedyMonotonic, Limits, Optimizer, PatchQueue, StrictPareto, Trainer
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]

GAIN, LOSE, NEUTRAL = {"01": "agent/skills/one"}, {"01": "agent/broken/two"}, {"01": "agent/note.txt"}


@contextmanager
def training(project: Project, **more: Any) -> Iterator[Trainer]:
    """A trainer on the project, with the environment of its commands."""
    more.setdefault("optimizer", GreedyMonotonic())
    with Trainer(project.root / "ht.toml", environ=project.environment(), **more) as trainer:
        yield trainer


def train(trainer: Trainer, n: int = 1, limits: Limits | None = None) -> list[Verdict]:
    """The canonical loop."""
    verdicts = []
    for loss in trainer.epochs(n, limits):
        loss.backward()
        assert trainer.optimizer is not None
        trainer.optimizer.step()
        verdicts.append(loss.verdict)
    return verdicts


def states(trainer: Trainer) -> list[tuple[int, str]]:
    """Number and state of every epoch."""
    return [(epoch.number, epoch.state) for epoch in trainer.context.store.epochs()]


def test_the_loop_as_the_design_has_it(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = project(patches={**GAIN, "02": "agent/broken/two", "03": "agent/skills/three"})
    monkeypatch.chdir(made.root)
    start = made.git("rev-parse", "main")
    losses = []
    optimizer = GreedyMonotonic()
    with Trainer("ht.toml", estimator=PatchQueue(), criterion=StrictPareto(), optimizer=optimizer) as trainer:
        for loss in trainer.epochs(3):
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        assert losses == [-1.0, float("inf"), -1.0]
        assert states(trainer) == [(1, "promoted"), (2, "rejected"), (3, "promoted")]
        store = trainer.context.store
        assert [e.reason for e in store.epochs()] == [
            "gained one, lost nothing",
            "lost two",
            "gained three, lost nothing",
        ]
        assert all(e.verdict and e.base_run and e.cand_run and e.candidate for e in store.epochs())
        assert [bool(e.promotion) for e in store.epochs()] == [True, False, True]
        assert {p.state for p in store.promotions()} == {"done"}
        memo = store.memo()
        assert memo is not None
        assert (memo.epoch, memo.verdict) == (3, store.epochs()[-1].verdict)
    assert made.git("rev-list", "--count", f"{start}..main") == "2"
    assert made.git("status", "--porcelain") == ""  # the checkout followed
    assert (made.root / "agent" / "skills" / "three").exists()
    assert not (made.root / "agent" / "broken").exists()
    assert list((made.root / ".ht" / "worktrees").iterdir()) == []


def test_a_loss_that_is_not_recorded_cannot_be_stepped(project: Make) -> None:
    optimizer = GreedyMonotonic()
    with training(project(patches=GAIN), optimizer=optimizer) as trainer:
        for loss in trainer.epochs(1):
            with pytest.raises(UsageError, match="no loss was recorded"):
                optimizer.step()
            assert loss.value == -1.0
        (epoch,) = trainer.context.store.epochs()
        assert (epoch.state, epoch.verdict) == ("rejected", None)
        assert epoch.reason == "gained one, lost nothing; the optimizer was not asked to step"
        assert trainer.context.store.verdicts() == []
        assert trainer.context.store.memo() is not None


def test_a_recorded_loss_without_a_step_promotes_nothing(project: Make) -> None:
    made = project(patches=GAIN)
    head = made.git("rev-parse", "main")
    with training(made) as trainer:
        for loss in trainer.epochs(1):
            loss.backward()
            loss.backward()
        (epoch,) = trainer.context.store.epochs()
        assert (epoch.state, epoch.promotion) == ("rejected", None)
        assert [verdict.id for verdict in trainer.context.store.verdicts()] == [epoch.verdict]
    assert made.git("rev-parse", "main") == head


def test_an_optimizer_without_a_trainer_does_nothing() -> None:
    with pytest.raises(UsageError, match="belongs to no trainer"):
        GreedyMonotonic().step()
    with pytest.raises(UsageError, match="decides nothing"):
        Optimizer().decide(None)  # type: ignore[arg-type]


class Stubborn(Optimizer):
    """Promotes nothing."""

    name = "stubborn"

    def decide(self, verdict: Verdict) -> str | None:
        return "I would rather not"


class Skilful:
    """Proposes a skill."""

    name = "skilful"

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        (workshop.worktree / "agent" / "skills" / "one").write_text("yes\n")
        return Proposal(hypothesis="learn one", predicted=("one",))

    def diagnose(self, workshop: Workshop, evidence: Evidence, verdict: Verdict | None, outcome: str) -> Diagnosis:
        return Diagnosis(memo=f"I saw: {outcome}")


class Harsh(StrictPareto):
    """Rejects everything."""

    name = "harsh"

    def judge(self, comparison: Comparison) -> Verdict:
        verdict = super().judge(comparison)
        return verdict.model_copy(update={"decision": Decision.REJECTED, "loss": 1.0, "sentence": "not good enough"})


def test_estimators_criteria_and_optimizers_are_small_classes(project: Make) -> None:
    with training(project(), estimator=Skilful(), optimizer=Stubborn()) as trainer:
        (verdict,) = train(trainer)
        assert verdict.selected
        (epoch,) = trainer.context.store.epochs()
        assert (epoch.state, epoch.reason) == ("rejected", "I would rather not")
        memo = trainer.context.store.memo()
        assert memo is not None
        assert memo.text.strip() == "I saw: learn one: rejected (I would rather not)"
        (candidate,) = trainer.context.store.candidates()
        assert (candidate.predicted, candidate.epoch) == (("one",), 1)


def test_a_criterion_of_ones_own(project: Make) -> None:
    with training(project(patches=GAIN), criterion=Harsh()) as trainer:
        train(trainer)
        assert [epoch.reason for epoch in trainer.context.store.epochs()] == ["not good enough"]


def test_failed_proposals_end_their_epoch_and_two_in_a_row_the_loop(project: Make) -> None:
    made = project(patches={"01": "check.py.new", "02": "agent/fail", "03": "agent/skills/one"})
    with training(made) as trainer:
        with pytest.raises(ProposalFailure, match="2 proposals in a row gave no candidate; the last: its tests fail"):
            train(trainer, 3)
        assert states(trainer) == [(1, "failed"), (2, "failed")]
        reasons = [epoch.reason for epoch in trainer.context.store.epochs()]
        assert "check.py.new" in reasons[0]
        assert "1 test failed: agent/fail" in reasons[1]
        memo = trainer.context.store.memo()
        assert memo is not None
        assert memo.epoch == 2
        assert train(trainer, 1)[0].selected
        assert states(trainer)[-1] == (3, "promoted")
        with pytest.raises(ProposalFailure, match="nothing to propose"):
            train(trainer, 5)
        assert [state for _, state in states(trainer)] == ["failed", "failed", "promoted", "skipped", "skipped"]


def test_failures_in_a_row_are_counted_over_loops(project: Make) -> None:
    made = project()
    made.patch("01", "check.py.new")
    made.patch("02", "check.py.new")
    for n in (1, 2):
        with training(made) as trainer:
            if n == 1:
                assert train(trainer) == []
            else:
                with pytest.raises(ProposalFailure, match="2 proposals in a row"):
                    train(trainer)


class Crashing(Skilful):
    """Fails in both of its jobs."""

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        raise ProposalFailure("the agent CLI exited 1", transcript="I tried")

    def diagnose(self, workshop: Workshop, evidence: Evidence, verdict: Verdict | None, outcome: str) -> Diagnosis:
        raise ProposalFailure("still broken")


def test_an_estimator_that_fails_leaves_a_record_and_a_memo_of_facts(project: Make) -> None:
    with training(project(), estimator=Crashing()) as trainer:
        assert train(trainer) == []
        (candidate,) = trainer.context.store.candidates()
        assert (candidate.status, candidate.reason) == (CandidateStatus.INVALID, "the agent CLI exited 1")
        assert candidate.transcript is not None
        assert trainer.context.store.blob(candidate.transcript) == b"I tried"
        memo = trainer.context.store.memo()
        assert memo is not None
        assert memo.author == "harnesstrain"
        assert "the agent CLI exited 1" in memo.text


def test_a_gain_whose_commands_do_not_repeat_does_not_count(project: Make) -> None:
    made = project()
    made.patch("01", "agent/skills/one")
    patch = made.root / "patches" / "01.patch"
    random = made.patch("02", "agent/random/one").read_text().partition("\n\n")[2]
    patch.write_text(patch.read_text() + random)
    (made.root / "patches" / "02.patch").unlink()
    with training(made) as trainer:
        (verdict,) = train(trainer)
        assert verdict.decision is Decision.REJECTED
        assert verdict.gained == ()
        ((task, reason, detail),) = [(e.task, e.reason, e.detail) for e in verdict.excluded]
        assert (task, reason) == ("one", "forked")
        assert "the gain did not repeat" in detail
        assert "urandom" in detail
        results = {c.task: c.result for c in trainer.context.store.certificates(run=verdict.cand_run, kind="env")}
        assert results == {"one": Certified.FORKED}  # only what was gained is certified on the candidate's side
        assert states(trainer) == [(1, "rejected")]


def test_a_task_that_forks_on_the_baseline_is_left_out_and_a_candidate_cannot_hide_behind_it(project: Make) -> None:
    made = project(patches={"01": "agent/broken/two"}, files={"agent/random/three": "yes\n"})
    with training(made) as trainer:
        (verdict,) = train(trainer)
        left_out = [(one.task, one.reason) for one in verdict.excluded]
        assert left_out == [("three", "forked"), ("one", "not_needed")]  # the loss of two decides
        assert [flip.task for flip in verdict.lost] == ["two"]


def test_without_certification_a_gain_is_taken_as_it_is(project: Make) -> None:
    with training(project(patches=GAIN)) as trainer:
        trainer.context.settings = trainer.context.settings.model_copy(
            update={"loop": trainer.context.settings.loop.model_copy(update={"certify": False})}
        )
        assert train(trainer)[0].selected
        assert trainer.context.store.certificates() == []


def test_a_second_loop_is_busy(project: Make) -> None:
    made = project(patches=GAIN)
    with training(made) as one, training(made) as other:
        for loss in one.epochs(1):
            with pytest.raises(Busy, match="'loop' is held by process"):
                next(other.epochs(1))
            loss.backward()
        with pytest.raises(ProposalFailure):  # the loop is free again, and the queue is empty
            train(other, 3)


def test_a_stop_drains_and_the_next_loop_goes_on(project: Make) -> None:
    made = project(patches=GAIN)
    stop = threading.Event()
    with training(made, stop=stop, bus=Bus(StopAfter(stop, "rollout.finished", 4))) as trainer:
        trainer.context.settings = one_job(trainer)
        with pytest.raises(Incomplete, match="epoch 1 stopped after 1 of 3 cells: a stop was asked for"):
            train(trainer)
        assert states(trainer) == [(1, "started")]
    events = Kinds()
    with training(made, bus=Bus(events)) as trainer:
        assert train(trainer)[0].selected
        assert states(trainer) == [(1, "promoted")]
        assert len(trainer.context.store.candidates()) == 1
        assert events.count("rollout.finished") == 1  # the other four were kept, and one decides
        assert events.count("propose.started") == 0


class Kinds:
    """Remembers events."""

    def __init__(self) -> None:
        self.seen: list[Event] = []

    def on(self, event: Event) -> None:
        self.seen.append(event)

    def count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self.seen)


class StopAfter(Kinds):
    """Asks to stop after so many events of a kind."""

    def __init__(self, stop: threading.Event, kind: str, times: int) -> None:
        super().__init__()
        self._stop, self._kind, self._times = stop, kind, times

    def on(self, event: Event) -> None:
        super().on(event)
        if self.count(self._kind) >= self._times:
            self._stop.set()


def one_job(trainer: Trainer) -> Any:
    """Settings with one rollout at a time."""
    settings = trainer.context.settings
    return settings.model_copy(update={"measure": settings.measure.model_copy(update={"jobs": 1})})


def test_a_token_limit_stops_and_says_so(project: Make) -> None:
    with training(project(patches=GAIN)) as trainer:
        trainer.context.settings = one_job(trainer)
        with pytest.raises(Incomplete, match="stopped after 1 of 3 cells: the token limit is reached"):
            train(trainer, 1, Limits(threading.Event(), max_tokens=10))
        with pytest.raises(Incomplete, match="stopped: the time limit is reached"):
            train(trainer, 1, Limits(threading.Event(), max_time=0.0))
        assert train(trainer)[0].selected


def test_leaving_the_loop_early_is_an_interruption(project: Make) -> None:
    made = project(patches=GAIN)
    with training(made) as trainer:
        for loss in trainer.epochs(1):
            loss.backward()
            break
        del loss
        assert states(trainer) == [(1, "started")]
    events = Kinds()
    with training(made, bus=Bus(events)) as trainer:
        train(trainer)
        assert states(trainer) == [(1, "promoted")]
        assert events.count("run.started") == 0  # the recorded verdict was enough


def test_an_epoch_whose_baseline_moved_meanwhile_is_abandoned(project: Make) -> None:
    made = project(patches={**GAIN, "02": "agent/skills/three"})
    with training(made) as trainer:
        next(iter(trainer.epochs(1)))
    (made.root / "notes.txt").write_text("mine\n")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "A change of the user's")
    with training(made) as trainer:
        train(trainer)
        assert states(trainer) == [(1, "abandoned"), (2, "promoted")]
        assert "the baseline moved from" in trainer.context.store.epoch(1).reason


def interrupted(trainer: Trainer, project: Project, *, moved: bool) -> Epoch:
    """An epoch whose promotion was interrupted before, or right after, the branch moved."""
    store = trainer.context.store
    for loss in trainer.epochs(1):
        loss.backward()
        verdict = loss.verdict
        break
    intended = Promotion(
        id="a" * 64,
        verdict=verdict.id,
        branch="main",
        old=verdict.base_commit,
        new=verdict.cand_commit,
        state="intended",
    )
    store.put_promotion(intended)
    if moved:
        project.git("update-ref", "refs/heads/main", verdict.cand_commit, verdict.base_commit)
    return store.epochs()[-1]


@pytest.mark.parametrize("moved", [True, False])
def test_an_interrupted_promotion_is_repaired(project: Make, moved: bool) -> None:
    made = project(patches=GAIN)
    with training(made) as trainer:
        interrupted(trainer, made, moved=moved)
    with training(made) as trainer:
        train(trainer)
        store = trainer.context.store
        assert states(trainer) == [(1, "promoted")]
        states_of = {promotion.id: promotion.state for promotion in store.promotions()}
        assert states_of["a" * 64] == "done"
        assert store.epochs()[-1].promotion in states_of
    assert made.git("status", "--porcelain") == ""
    assert (made.root / "agent" / "skills" / "one").exists()


def test_a_missing_memo_is_written_by_the_next_loop(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = project(patches={**GAIN, "02": "agent/skills/three"})

    def killed(*args: object) -> None:
        raise KeyboardInterrupt

    with training(made) as trainer, monkeypatch.context() as patch:
        patch.setattr("harnesstrain.stages.propose.diagnose", killed)
        with pytest.raises(KeyboardInterrupt):
            train(trainer)
        assert trainer.context.store.memo() is None
        assert states(trainer) == [(1, "promoted")]
    with training(made) as trainer:
        train(trainer)
        memos = [row["record"]["epoch"] for row in trainer.context.store.export("memo")]
        assert memos == [1, 2]


def test_the_number_of_epochs_must_be_positive(project: Make) -> None:
    with training(project()) as trainer, pytest.raises(UsageError, match="must be positive"):
        next(trainer.epochs(0))


def test_a_settings_file_by_another_name(project: Make) -> None:
    made = project(patches=GAIN)
    (made.root / "other.toml").write_text((made.root / "ht.toml").read_text() + "\n[budgets]\nsteps = 1\n")
    with Trainer(made.root / "other.toml", environ=made.environment()) as trainer:
        assert trainer.context.settings.budgets.steps == 1


def test_a_baseline_that_cannot_be_measured_asks_no_estimator(project: Make) -> None:
    made = project(patches=GAIN)
    made.rules('{"error": "transport", "message": "no route to host"}\n')
    with training(made) as trainer:
        with pytest.raises(Unmeasurable, match="no cell of the baseline could be measured: all 3"):
            train(trainer)
        assert states(trainer) == [(1, "started")]
        assert trainer.context.store.candidates() == []
        (run,) = trainer.context.store.runs()
        attempts = sorted(rollout.attempt for rollout in trainer.context.store.rollouts(run.id))
        assert attempts == [1, 1, 1, 2, 2, 2]  # each was retried once


def test_infrastructure_that_could_flip_the_verdict_is_unmeasurable_and_never_a_rejection(project: Make) -> None:
    made = project(patches={**GAIN, "02": "agent/note.txt"})
    made.rules('{"match": "three", "error": "transport", "message": "gone"}\n{"reply": "ok", "duration": 1.0}\n')
    with training(made) as trainer:
        (verdict, _) = train(trainer, 2)
        assert verdict.decision is Decision.UNMEASURABLE
        assert [one.task for one in verdict.unmeasurable] == ["three"]
        assert states(trainer) == [(1, "unmeasurable"), (2, "unmeasurable")]
        rollouts = trainer.context.store.rollouts(verdict.base_run)
        assert [r.attempt for r in rollouts if r.task == "three"] == [1, 2, 3]  # the next epoch tried once more
        assert [r.attempt for r in rollouts if r.task == "one"] == [1]


def test_a_harness_that_crashes_is_measured(project: Make) -> None:
    with training(project(patches={"01": "agent/crash/two"})) as trainer:
        (verdict,) = train(trainer)
        ((flip),) = verdict.lost
        assert (flip.task, flip.cand_outcome) == ("two", "policy_crash")
        rollouts = trainer.context.store.rollouts(verdict.cand_run)
        assert any("no idea how to do two" in rollout.detail for rollout in rollouts)


def test_a_branch_that_is_gone_is_said(project: Make) -> None:
    made = project(settings='\n[harness]\nbranch = "gone"\n')
    with training(made) as trainer, pytest.raises(NotFound, match="no branch 'gone'"):
        next(trainer.epochs(1))


def test_the_settings_file_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no such file"):
        Trainer(tmp_path / "missing.toml")
