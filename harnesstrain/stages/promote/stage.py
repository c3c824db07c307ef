"""The stage.  `intended` is recorded, the branch moves by compare-and-swap, `done` is recorded."""

from __future__ import annotations

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import NotFound, Unmeasurable
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.verdict import Decision, Promotion, Verdict
from harnesstrain.core.registry import load as plugin
from harnesstrain.measure.context import Context
from harnesstrain.measure.resuming import retries
from harnesstrain.stages.promote.base import Optimizer

INTENDED, DONE, REFUSED = "intended", "done", "refused"


class PromoteSpec(Record):
    """A verdict to act on."""

    verdict: Verdict
    dry_run: bool = False


class Promoted(Record):
    """What became of it."""

    applied: bool
    """The branch stands at the candidate now."""
    commit: str
    """The baseline now."""
    reason: str
    """Why not, or what else the user should know (a checkout that was left alone)."""
    planned: bool = False
    """A dry run would promote."""
    promotion: Promotion | None = None


def run(context: Context, spec: PromoteSpec, optimizer: Optimizer | None = None) -> Promoted:
    """Promote or not, as `optimizer` (default: the configured one) decides.

    Promoting what is already the baseline is `applied`, and changes nothing.

    Raises Unmeasurable when the verdict is.  A branch that moved meanwhile is refused, with both commits named.
    """
    verdict = spec.verdict
    branch = context.settings.harness.branch or context.repo.branch()
    head = context.repo.branch_head(branch)
    if verdict.decision is Decision.UNMEASURABLE:
        msg = f"verdict {verdict.id[:8]} is unmeasurable: {verdict.sentence}"
        again = retries(context, (verdict.base_run, verdict.cand_run))
        hint = again or f"`ht show {verdict.id[:8]}` names the cells"
        if verdict.not_needed:
            hint = f"`ht evaluate {verdict.cand_commit[:8]} --exhaustive` measures the cells that were left out"
        raise Unmeasurable(msg, hint=hint)
    rule: Optimizer = optimizer or plugin("optimizers", context.settings.loop.optimizer)()
    why_not = rule.decide(verdict)
    if why_not is not None:
        return Promoted(applied=False, commit=head, reason=why_not)
    if head == verdict.cand_commit:
        before = [one for one in context.store.promotions() if one.verdict == verdict.id]
        return Promoted(
            applied=True, commit=head, reason="already the baseline", promotion=before[-1] if before else None
        )
    if head != verdict.base_commit:
        reason = (
            f"{branch} stands at {head[:8]}, but the verdict was measured against {verdict.base_commit[:8]}; "
            "evaluate the candidate against the new baseline"
        )
        return Promoted(applied=False, commit=head, reason=reason)
    if spec.dry_run:
        return Promoted(applied=False, planned=True, commit=head, reason=f"would promote {verdict.cand_commit[:8]}")
    promotion = Promotion(
        id=digest({"verdict": verdict.id, "branch": branch, "old": head, "new": verdict.cand_commit}),
        verdict=verdict.id,
        branch=branch,
        old=head,
        new=verdict.cand_commit,
        state=INTENDED,
    )
    context.store.put_promotion(promotion)
    moved = context.repo.promote(branch, verdict.cand_commit, head)
    state = DONE if moved.moved else REFUSED
    done = promotion.model_copy(update={"state": state, "reason": moved.reason})
    context.store.put_promotion(done)
    if not moved.moved:
        return Promoted(applied=False, commit=context.repo.branch_head(branch), reason=moved.reason, promotion=done)
    context.bus.emit("promoted", moved.reason, commit=verdict.cand_commit, verdict=verdict.id)
    return Promoted(applied=True, commit=verdict.cand_commit, reason=moved.reason, promotion=done)


def repair(context: Context) -> tuple[Promotion, ...]:
    """Finish promotions that a kill interrupted.  What was intended is done, unless the branch is elsewhere now.

    The user's files follow, if they are clean.
    """
    repaired = []
    for promotion in context.store.promotions():
        if promotion.state == INTENDED:
            final = promotion.model_copy(update=_completed(context, promotion))
            context.store.put_promotion(final)
            repaired.append(final)
    return tuple(repaired)


def _completed(context: Context, promotion: Promotion) -> dict[str, str]:
    try:
        head = context.repo.branch_head(promotion.branch)
    except NotFound as gone:
        return {"state": REFUSED, "reason": f"interrupted, and {gone.message} now"}
    note = "completed after an interruption"
    if head != promotion.new and context.repo.is_ancestor(promotion.new, head):
        return {"state": DONE, "reason": note}
    moved = context.repo.promote(promotion.branch, promotion.new, promotion.old)
    return {"state": DONE if moved.moved else REFUSED, "reason": moved.reason or note}
