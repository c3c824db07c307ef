"""A candidate is measured until the verdict is decided, on a real project; the same run can be completed later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harnesstrain.core.errors import Incomplete, UsageError
from harnesstrain.core.events import Bus, Event
from harnesstrain.core.records.verdict import Decision, Verdict
from harnesstrain.judge import Comparison, StrictPareto
from harnesstrain.measure.context import Context
from harnesstrain.measure.project import open_context
from harnesstrain.stages import evaluate, judging
from harnesstrain.stages.evaluate import EvaluateSpec
from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]
TASKS = ("one", "two", "three", "four", "five")


class Seen:
    """Remembers events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]


class Bout:
    """A baseline that was measured, and a candidate that was not."""

    def __init__(self, context: Context, cand: str, seen: Seen) -> None:
        self.context = context
        self.cand = cand
        self.seen = seen
        self.base = evaluate.run(context, EvaluateSpec(commit=context.repo.head())).run

    def measure(self, **more: Any) -> evaluate.Evaluated:
        """Measure the candidate; early unless told otherwise."""
        return evaluate.run(self.context, EvaluateSpec(commit=self.cand, **{"against": self.base, **more}))

    def judge(self, criterion: str | None = None) -> Verdict:
        run = self.context.store.runs()[-1].id
        spec = judging.JudgeSpec(base_run=self.base, cand_run=run, criterion=criterion, record=False)
        return judging.run(self.context, spec)

    def calls(self) -> int:
        """Model calls of the candidate's run."""
        return sum(r.llm_calls for r in self.context.store.rollouts(self.context.store.runs()[-1].id))

    def tasks(self) -> list[str]:
        return [r.task for r in self.context.store.rollouts(self.context.store.runs()[-1].id)]


@pytest.fixture
def bout(project: Make) -> Iterator[Callable[..., Any]]:
    @contextmanager
    def opened(change: str, **more: Any) -> Iterator[Bout]:
        made = project(tasks=TASKS, skills=("two", "four"), **more)
        (made.root / change).parent.mkdir(parents=True, exist_ok=True)
        (made.root / change).write_text("yes\n")
        made.git("add", change)
        made.git("commit", "-qm", "change", "--no-verify")
        cand = made.git("rev-parse", "HEAD")
        made.git("reset", "-q", "--hard", "HEAD~1")
        seen = Seen()
        context = open_context(made.settings(), environ=made.environment(), bus=Bus(seen))
        with context:
            yield Bout(context, cand, seen)
        context.store.close()

    yield opened


def test_a_loss_ends_the_run_and_exhaustive_completes_it(bout: Callable[..., Any]) -> None:
    with bout("agent/broken/four") as it:
        early = it.measure(jobs=3)
        assert early.complete
        assert (early.executed, early.not_needed, early.cells) == (1, 4, 5)
        assert it.tasks() == ["four"]  # solved by the baseline, first by name: the loss is found at once
        assert it.calls() == 2
        assert it.seen.of("run.finished")[-1].data["not_needed"] == 4
        store = it.context.store
        summary = store.summaries()[-1]
        assert (summary.cells, summary.not_needed, summary.complete) == (1, 4, True)
        first = it.judge()
        assert (first.decision, first.not_needed) == (Decision.REJECTED, 4)
        assert first.unmeasurable == ()
        store.put_verdict(first)
        again = it.measure()
        assert (again.executed, again.not_needed, again.complete, again.run) == (0, 4, True, early.run)

        cut = it.measure(against=None, max_tokens=1, jobs=1)
        assert (cut.executed, cut.complete, cut.not_needed) == (1, False, 0)
        assert not store.is_complete(early.run)
        resumed = it.measure()  # what there is decides still
        assert (resumed.executed, resumed.not_needed, resumed.complete) == (0, 3, True)
        whole = it.measure(against=None)
        assert (whole.run, whole.executed, whole.done, whole.complete) == (early.run, 3, 5, True)
        assert store.run(early.run).early_stop_against is None
        assert store.summaries()[-1].not_needed == 0
        full = it.judge()
        assert (full.decision, full.not_needed, full.lost) == (first.decision, 0, first.lost)
        assert judging.derive.rederived(store, first) == ()  # the first verdict holds as it was judged
        assert it.calls() == 10


def test_a_gain_is_enough_once_nothing_can_be_lost(bout: Callable[..., Any]) -> None:
    with bout("agent/skills/one") as it:
        early = it.measure(jobs=1)
        assert it.tasks()[:2] == ["four", "two"]
        assert it.tasks()[-1] == "one"
        assert early.executed + early.not_needed == 5
        verdict = it.judge()
        assert (verdict.decision, [flip.task for flip in verdict.gained]) == (Decision.SELECTED, ["one"])
        other = it.judge("total-solves")
        assert other.decision is Decision.SELECTED
        whole = it.measure(against=None)
        assert (whole.complete, it.judge().gained, it.judge().decision) == (True, verdict.gained, verdict.decision)


def test_a_tie_needs_every_cell(bout: Callable[..., Any]) -> None:
    with bout("agent/note.txt") as it:
        done = it.measure(jobs=2)
        assert (done.executed, done.not_needed, done.complete) == (5, 0, True)
        assert it.context.store.run(done.run).early_stop_against is None
        assert it.judge().decision is Decision.REJECTED


def test_what_is_recorded_is_the_same_however_many_run_at_once(bout: Callable[..., Any]) -> None:
    with bout("agent/broken/two") as it:
        it.measure(jobs=5)
        assert it.tasks() == ["four", "two"]
        spec = {"fresh": "again", "against": evaluate.run(
            it.context, EvaluateSpec(commit=it.context.repo.head(), fresh="again")
        ).run}  # fmt: skip
        it.measure(jobs=1, **spec)
        assert it.tasks() == ["four", "two"]


def test_another_criterion_may_need_more(bout: Callable[..., Any]) -> None:
    with bout("agent/broken/four") as it:
        it.measure(jobs=1)
        doubtful = it.judge("total-solves")
        assert (doubtful.decision, doubtful.not_needed) == (Decision.UNMEASURABLE, 4)
        more = it.measure(criterion="total-solves")
        assert more.executed > 0
        assert it.judge("total-solves").decision is Decision.REJECTED


def test_an_infrastructure_failure_keeps_the_verdict_open(bout: Callable[..., Any]) -> None:
    with bout("agent/broken/two") as it:
        rules = '{"match": "four", "error": "transport", "message": "gone"}\n{"reply": "ok", "duration": 1.0}\n'
        (it.context.settings.root / "rules.jsonl").write_text(rules)
        it.context.close()  # the next measurement opens the changed model
        it.base = evaluate.run(it.context, EvaluateSpec(commit=it.context.repo.head())).run
        done = it.measure(jobs=1)
        assert it.judge().decision is Decision.REJECTED  # two is lost whatever four would have been
        assert done.not_needed > 0


class Whole:
    """Judges whole runs: it is no rule."""

    name = "whole"

    def judge(self, comparison: Comparison) -> Verdict:
        return StrictPareto().judge(comparison)


def test_when_there_is_no_early_stop(bout: Callable[..., Any]) -> None:
    with bout("agent/broken/four") as it:
        head = it.context.repo.head()
        same = evaluate.run(it.context, EvaluateSpec(commit=head, against=it.base))
        assert (same.run, same.executed, same.not_needed) == (it.base, 0, 0)
        with pytest.raises(UsageError, match="not comparable: seeds"):
            it.measure(seeds=2)
        part = evaluate.run(it.context, EvaluateSpec(commit=head, fresh="x", max_tokens=1, jobs=1))
        with pytest.raises(Incomplete, match="the baseline's run"):
            it.measure(fresh="x", against=part.run)
        asked = it.context.store.runs()[-1]
        assert it.context.store.rollouts(asked.id) == []
        spec = EvaluateSpec(commit=it.cand, against=it.base)
        assert evaluate.dry_run(it.context, spec).early_stop
        done = evaluate.run(it.context, spec, Whole())
        assert (done.executed, done.not_needed) == (5, 0)
        assert "judges whole runs only" in it.seen.of("warning")[-1].message
        assert evaluate.dry_run(it.context, spec).to_run == 0
