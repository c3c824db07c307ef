"""Certifying environments, and the verdicts that follow, on a real project."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from harnesstrain.core.errors import Incomplete, NotFound, SandboxFailure, UsageError
from harnesstrain.core.records.certificate import Certified
from harnesstrain.stages import certify, evaluate, judging
from harnesstrain.stages.judging.derive import rederived
from tests.project import Project
from tests.stages.test_evaluate import opened

pytestmark = pytest.mark.local
Make = Callable[..., Project]
RANDOM = {"agent/random/three": "yes\n"}


def test_every_chain_gets_its_certificate_once(project: Make) -> None:
    with opened(project(files=RANDOM)) as context:
        run = evaluate.run(context, evaluate.EvaluateSpec(commit=context.repo.head())).run
        done = certify.run(context, certify.CertifySpec(run=run))
        assert done.executed == 3
        assert {c.task: c.result for c in done.certificates} == {
            "one": Certified.EXACT,
            "two": Certified.EXACT,
            "three": Certified.FORKED,
        }
        (fork,) = [c for c in done.certificates if c.result is Certified.FORKED]
        assert fork.command == "head -c 9 /dev/urandom | sha256sum"
        assert fork.recorded != fork.observed
        again = certify.run(context, certify.CertifySpec(run=run))
        assert (again.executed, again.certificates) == (0, done.certificates)
        fresh = evaluate.run(context, evaluate.EvaluateSpec(commit=context.repo.head(), fresh="x")).run
        assert certify.run(context, certify.CertifySpec(run=fresh)).executed == 0  # same chains: inherited
        assert certify.run(context, certify.CertifySpec(run=run, tasks=("one",))).tasks(Certified.EXACT) == ("one",)


def test_what_cannot_be_certified_is_said(project: Make) -> None:
    made = project()
    with opened(made) as context:
        commit = context.repo.head()
        part = evaluate.run(context, evaluate.EvaluateSpec(commit=commit, max_tokens=1, jobs=1)).run
        with pytest.raises(Incomplete, match="is not complete"):
            certify.run(context, certify.CertifySpec(run=part))
        with pytest.raises(Incomplete, match="is not complete"):
            judging.run(context, judging.JudgeSpec(base_run=part, cand_run=part))
        run = evaluate.run(context, evaluate.EvaluateSpec(commit=commit)).run
    (made.root / "tasks" / "one" / "instruction.md").write_text("Make /app/NAME, where NAME is now one\n")
    with opened(made) as context:
        with pytest.raises(NotFound, match="task 'one' is not in the panel any more, or was changed"):
            certify.run(context, certify.CertifySpec(run=run))
        assert len(context.store.certificates()) in (0, 1, 2)  # those of the others may be there already
    with opened(made, **{"budgets.steps": 5}) as context, pytest.raises(UsageError, match="another regime"):
        certify.run(context, certify.CertifySpec(run=run))


def test_a_stop_and_a_failure_leave_what_was_certified(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(project(), **{"measure.jobs": 1}) as context:
        run = evaluate.run(context, evaluate.EvaluateSpec(commit=context.repo.head())).run
        sandbox = context.devices.bench.sandbox
        real, calls = sandbox.open, []

        def failing(*args: object, **kwargs: object) -> object:
            calls.append(1)
            if len(calls) == 2:
                raise SandboxFailure("no room")
            return real(*args, **kwargs)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(sandbox, "open", failing)
            with pytest.raises(SandboxFailure, match="no room"):
                certify.run(context, certify.CertifySpec(run=run))
        assert len(calls) == 2  # nothing was started after it
        assert len(context.store.certificates()) == 1
        stop = threading.Event()
        stop.set()
        context.stop = stop
        with pytest.raises(Incomplete, match="stopped after 0 of 2 chains"):
            certify.run(context, certify.CertifySpec(run=run))
        stop.clear()
        assert certify.run(context, certify.CertifySpec(run=run)).executed == 2


def test_a_verdict_says_what_it_rests_on_and_can_be_derived_again(project: Make) -> None:
    made = project(files=RANDOM)
    made.git("checkout", "-q", "-b", "cand")
    (made.root / "agent" / "skills" / "one").write_text("yes\n")
    made.git("add", "-A")
    made.git("commit", "-qm", "Learn one")
    made.git("checkout", "-q", "main")
    with opened(made) as context:
        runs = [
            evaluate.run(context, evaluate.EvaluateSpec(commit=context.repo.resolve(rev))).run
            for rev in ("main", "cand")
        ]
        certify.run(context, certify.CertifySpec(run=runs[0]))
        spec = judging.JudgeSpec(base_run=runs[0], cand_run=runs[1])
        verdict = judging.run(context, spec)
        assert [one.task for one in verdict.excluded] == ["three"]
        assert (verdict.selected, verdict.proven_unchanged, len(verdict.certificates)) == (True, 1, 3)
        assert judging.run(context, spec).id == verdict.id
        assert [one.id for one in context.store.verdicts()] == [verdict.id]
        unrecorded = judging.run(context, spec.model_copy(update={"criterion": "total-solves", "record": False}))
        assert unrecorded.id != verdict.id
        assert len(context.store.verdicts()) == 1
        assert rederived(context.store, verdict) == ()
        forged = verdict.model_copy(update={"loss": -2.0})
        assert [one.field for one in rederived(context.store, forged)] == ["loss"]
        certify.run(context, certify.CertifySpec(run=runs[1]))
        assert rederived(context.store, verdict) == ()  # later certificates do not change it
