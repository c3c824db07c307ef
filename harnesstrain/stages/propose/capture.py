"""Workspace → one child commit → guards → check → Candidate.  The estimator is not asked."""

from __future__ import annotations

from pathlib import Path

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import ConfigError, PolicyFailure
from harnesstrain.core.records.candidate import Candidate, CandidateStatus, Proposal
from harnesstrain.core.records.harness import HarnessVersion
from harnesstrain.harness.capture import commit_message
from harnesstrain.harness.trial import run_check
from harnesstrain.measure.context import Context

CHECK_TAIL = 1500
"""Characters of a failed check's output kept in the reason."""


def capture(
    context: Context, worktree: Path, version: HarnessVersion, proposal: Proposal, *, estimator: str, epoch: int | None
) -> Candidate:
    """The candidate that a worktree amounts to, or the record that says why it amounts to none.

    Checks, in order: there is a delta; sole parent is the base; every path lies inside the surface; the manifest's
    check passes in the jail.
    """
    base = version.commit
    trailers = {
        "Base": base,
        "Epoch": str(epoch) if epoch is not None else "",
        "Estimator": estimator,
        "Predicted": ", ".join(proposal.predicted),
    }
    try:
        commit = context.repo.capture(
            worktree, base, commit_message(proposal.hypothesis, trailers), visible=version.manifest.visible
        )
        if commit is None:
            return refusal(
                context, base, proposal, estimator, epoch, CandidateStatus.NO_CANDIDATE, "the estimator left no change"
            )
        context.repo.guard(base, commit, version.manifest)
    except (PolicyFailure, ConfigError) as failure:
        return refusal(context, base, proposal, estimator, epoch, CandidateStatus.INVALID, failure.message)
    files = tuple(sorted(context.repo.changed_files(base, commit)))
    why = _check(context, commit, version)
    if why is not None:
        refused = refusal(context, base, proposal, estimator, epoch, CandidateStatus.INVALID, why)
        return refused.model_copy(update={"files": files})
    identifier = digest({"base": base, "commit": commit, "estimator": estimator})
    context.repo.set_ref(f"candidates/{identifier[:16]}", commit)
    return Candidate(
        id=identifier,
        status=CandidateStatus.CANDIDATE,
        base=base,
        commit=commit,
        estimator=estimator,
        hypothesis=proposal.hypothesis.strip().splitlines()[0] if proposal.hypothesis.strip() else "",
        predicted=proposal.predicted,
        epoch=epoch,
        files=files,
        usage=proposal.usage,
        cost_usd=proposal.cost_usd,
        transcript=keep(context, proposal.transcript),
        source=proposal.source,
    )


def refusal(
    context: Context,
    base: str,
    proposal: Proposal,
    estimator: str,
    epoch: int | None,
    status: CandidateStatus,
    reason: str,
) -> Candidate:
    """The record of a proposal that gave no candidate.  Each one is a record of its own, so that failures count."""
    tries = sum(candidate.base == base for candidate in context.store.candidates())
    identity = {"base": base, "reason": reason, "estimator": estimator, "source": proposal.source, "try": tries}
    return Candidate(
        id=digest(identity),
        status=status,
        base=base,
        estimator=estimator,
        hypothesis=proposal.hypothesis.strip().splitlines()[0] if proposal.hypothesis.strip() else "",
        predicted=proposal.predicted,
        reason=reason,
        epoch=epoch,
        usage=proposal.usage,
        cost_usd=proposal.cost_usd,
        transcript=keep(context, proposal.transcript),
        source=proposal.source,
    )


def _check(context: Context, commit: str, version: HarnessVersion) -> str | None:
    """Why the check failed, or None."""
    if not version.manifest.check:
        return None
    with context.repo.worktree(commit) as tree:
        result = run_check(tree, version.manifest, isolated=not context.settings.sandbox.allow_unisolated)
    if result.ok:
        return None
    return f"its tests fail: {result.output.strip()[-CHECK_TAIL:]}"


def keep(context: Context, transcript: str | None) -> str | None:
    """Keep a transcript as a blob of the store; its digest."""
    return context.store.put_blob(transcript.encode("utf-8", "replace")) if transcript else None
