"""What was tried so far, and the memo made of facts alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harnesstrain.core.records.candidate import Candidate, CandidateStatus
from harnesstrain.core.records.verdict import Epoch, Flip, Promotion, Verdict
from harnesstrain.stages.propose.base import Evidence, Tried


def ledger(
    candidates: Iterable[Candidate],
    verdicts: Iterable[Verdict],
    promotions: Iterable[Promotion],
    epochs: Iterable[Epoch] = (),
) -> tuple[Tried, ...]:
    """One line per candidate record, oldest first."""
    judged = {verdict.cand_commit: verdict for verdict in verdicts}
    promoted = {promotion.new for promotion in promotions if promotion.state == "done"}
    epoch_of = {epoch.candidate: epoch.number for epoch in epochs if epoch.candidate}
    return tuple(
        _tried(candidate, judged.get(candidate.commit or ""), promoted, epoch_of.get(candidate.id))
        for candidate in candidates
    )


def _tried(candidate: Candidate, verdict: Verdict | None, promoted: set[str], epoch: int | None) -> Tried:
    if candidate.status is not CandidateStatus.CANDIDATE:
        result, reason = candidate.status.value, candidate.reason
    elif candidate.commit in promoted:
        result, reason = "promoted", verdict.sentence if verdict else ""
    elif verdict is not None:
        result, reason = ("not promoted" if verdict.selected else verdict.decision.value), verdict.sentence
    else:
        result, reason = "not judged", ""
    return Tried(
        epoch=epoch if epoch is not None else candidate.epoch,
        candidate=candidate.id,
        hypothesis=candidate.hypothesis,
        source=candidate.source,
        base=candidate.base,
        result=result,
        reason=reason,
        gained=tuple(sorted({flip.task for flip in verdict.gained})) if verdict else (),
        lost=tuple(sorted({flip.task for flip in verdict.lost})) if verdict else (),
        why=tuple(why(flip) for flip in (*verdict.gained, *verdict.lost)) if verdict else (),
    )


def as_markdown(tried: Sequence[Tried]) -> str:
    """The ledger for people and models, oldest first."""
    if not tried:
        return "Nothing was tried yet.\n"
    return "\n".join(_line(item) for item in tried) + "\n"


def facts_memo(evidence: Evidence, outcome: str) -> str:
    """A memo that claims nothing: what just happened, what was tried, where the baseline stands."""
    return f"# Memo\n\nLast: {outcome}\n\n## Tried\n\n{as_markdown(evidence.ledger)}\n## Baseline\n\n{evidence.summary}"


def _line(item: Tried) -> str:
    where = f"epoch {item.epoch}" if item.epoch is not None else "by hand"
    about = item.reason
    title = item.hypothesis or item.source or "(no proposal)"
    line = f"- {where}: {title} → **{item.result}**" + (f" ({about})" if about else "")
    return "\n".join([line, *(f"  - {reason}" for reason in item.why)])


def why(flip: Flip) -> str:
    """A flip and what explains it, in a few words."""
    reason = f": {flip.evidence}" if flip.evidence else ""
    return f"{'gained' if flip.gained else 'lost'} {flip.task}, {flip.attribution or 'not traced'}{reason}"
