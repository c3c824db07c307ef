"""Promotion: recorded before and after, a compare-and-swap in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harnesstrain.core.errors import Unmeasurable
from harnesstrain.core.records.verdict import Decision, Levers, Promotion, Verdict
from harnesstrain.measure.context import Context
from harnesstrain.stages import promote
from harnesstrain.stages.promote import PromoteSpec
from tests.project import Project
from tests.stages.test_evaluate import opened

pytestmark = pytest.mark.local
Make = Callable[..., Project]


def branched(project: Project, name: str = "cand") -> str:
    """A commit on a branch of its own, one step ahead of main."""
    project.git("checkout", "-q", "-b", name)
    (project.root / "agent" / f"{name}.txt").write_text("yes\n")
    project.git("add", "-A")
    project.git("commit", "-qm", f"Add {name}")
    project.git("checkout", "-q", "main")
    return project.git("rev-parse", name)


def verdict(base: str, cand: str, decision: Decision = Decision.SELECTED, loss: float = -1.0) -> Verdict:
    """A verdict on two commits."""
    return Verdict(
        id=f"{cand[:20]}{decision.value}".encode().hex()[:64].ljust(64, "0"),
        base_run="1" * 64,
        cand_run="2" * 64,
        base_commit=base,
        cand_commit=cand,
        regime="3" * 64,
        criterion="strict-pareto",
        decision=decision,
        loss=loss,
        sentence="so it is",
        base=Levers(solved=0, cells=1),
        cand=Levers(solved=1, cells=1),
        p_value=0.5,
        detectable=0,
    )


def states(context: Context) -> list[str]:
    return [row["record"]["state"] for row in context.store.export("promotion")]


def test_a_selected_candidate_is_promoted_once(project: Make) -> None:
    made = project()
    cand = branched(made)
    with opened(made) as context:
        base = context.repo.head()
        found = verdict(base, cand)
        dry = promote.run(context, PromoteSpec(verdict=found, dry_run=True))
        assert (dry.applied, dry.planned, dry.commit) == (False, True, base)
        assert states(context) == []
        done = promote.run(context, PromoteSpec(verdict=found))
        assert (done.applied, done.commit, context.repo.branch_head("main")) == (True, cand, cand)
        assert states(context) == ["intended", "done"]
        again = promote.run(context, PromoteSpec(verdict=found))
        assert (again.applied, again.reason, again.promotion) == (True, "already the baseline", done.promotion)
        assert states(context) == ["intended", "done"]
    assert (made.root / "agent" / "cand.txt").exists()


@pytest.mark.parametrize(("decision", "loss"), [(Decision.REJECTED, 1.0), (Decision.SELECTED, 0.0)])
def test_what_is_not_better_is_not_promoted(project: Make, decision: Decision, loss: float) -> None:
    made = project()
    cand = branched(made)
    with opened(made) as context:
        done = promote.run(context, PromoteSpec(verdict=verdict(context.repo.head(), cand, decision, loss)))
        assert (done.applied, done.reason) == (False, "so it is")
        assert states(context) == []


def test_unmeasurable_is_an_error_and_no_rejection(project: Make) -> None:
    made = project()
    cand = branched(made)
    with opened(made) as context, pytest.raises(Unmeasurable, match="so it is"):
        promote.run(context, PromoteSpec(verdict=verdict(context.repo.head(), cand, Decision.UNMEASURABLE)))


def test_a_baseline_that_moved_is_not_overwritten(project: Make) -> None:
    made = project()
    one, other = branched(made, "one-more"), branched(made, "other")
    with opened(made) as context:
        base = context.repo.head()
        assert promote.run(context, PromoteSpec(verdict=verdict(base, one))).applied
        late = promote.run(context, PromoteSpec(verdict=verdict(base, other)))
        assert (late.applied, late.commit) == (False, one)
        assert "evaluate the candidate against the new baseline" in late.reason
        assert context.repo.branch_head("main") == one


def test_a_swap_that_is_lost_is_recorded(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The branch moves between the look and the swap."""
    made = project()
    one, other = branched(made, "one-more"), branched(made, "other")
    with opened(made) as context:
        base = context.repo.head()
        real = context.store.put_promotion

        def meanwhile(record: Promotion) -> bool:
            made.git("update-ref", "refs/heads/main", other, base) if record.state == "intended" else None
            return real(record)

        monkeypatch.setattr(context.store, "put_promotion", meanwhile)
        done = promote.run(context, PromoteSpec(verdict=verdict(base, one)))
        assert (done.applied, done.commit) == (False, other)
        assert "somebody else moved it" in done.reason
        assert states(context) == ["intended", "refused"]


@pytest.mark.parametrize("where", ["before", "moved", "further", "elsewhere", "gone"])
def test_an_interrupted_promotion_is_finished(project: Make, where: str) -> None:
    made = project()
    cand = branched(made)
    elsewhere = branched(made, "other")
    branch = "side"
    made.git("branch", branch)
    base = made.git("rev-parse", branch)
    with opened(made) as context:
        context.store.put_promotion(
            Promotion(id="9" * 64, verdict="8" * 64, branch=branch, old=base, new=cand, state="intended")
        )
    if where == "gone":
        made.git("branch", "-D", branch)
    else:
        further = made.git("commit-tree", f"{cand}^{{tree}}", "-p", cand, "-m", "A step further")
        to = {"before": base, "moved": cand, "further": further, "elsewhere": elsewhere}[where]
        made.git("update-ref", f"refs/heads/{branch}", to)
    with opened(made) as context:
        (repaired,) = promote.repair(context)
        assert repaired.state == ("refused" if where in ("elsewhere", "gone") else "done")
        assert promote.repair(context) == ()
        if where == "before":
            assert context.repo.branch_head(branch) == cand
