"""The stage: evidence out, estimator in, candidate captured; and the memo after an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import ProposalFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Candidate, CandidateStatus, Proposal
from harnesstrain.core.records.verdict import Memo, Verdict
from harnesstrain.core.registry import load as plugin
from harnesstrain.core.scratch import scratch
from harnesstrain.measure.context import Context
from harnesstrain.stages.propose import evidence as staging
from harnesstrain.stages.propose.base import Diagnosis, Estimator, Evidence, Workshop
from harnesstrain.stages.propose.capture import capture, keep, refusal
from harnesstrain.stages.propose.ledger import facts_memo

MEMO_LINES = 150
"""Lines of a memo that are kept."""


class ProposeSpec(Record):
    """A proposal to be made."""

    base: str
    """Commit to change."""
    base_run: str | None = None
    """The baseline's run, for the evidence; None: its newest one."""
    epoch: int | None = None
    estimator: str | None = None
    """Registered name or module:Class; None: the configured one."""


class DiagnoseSpec(Record):
    """A memo to be written."""

    base: str
    """Baseline commit now."""
    base_run: str | None = None
    epoch: int | None = None
    verdict: Verdict | None = None
    outcome: str
    """What happened, one sentence."""
    estimator: str | None = None


def run(context: Context, spec: ProposeSpec, estimator: Estimator | None = None) -> Candidate:
    """Let the estimator propose once; capture, guard, check and record the result.

    A failing estimator is a recorded refusal, not an error.  Raises ConfigError when its options are wrong.
    """
    rule = estimator or _load(context, spec.estimator)
    version = context.repo.version(spec.base)
    context.bus.emit("propose.started", estimator=rule.name, base=spec.base)
    with _workshop(context, rule, spec.base) as workshop, _staged(context, spec) as evidence:
        try:
            proposal = rule.propose(workshop, evidence)
        except ProposalFailure as failure:
            said = {
                key: failure.extra[key]
                for key in ("source", "hypothesis", "transcript", "usage", "cost_usd")
                if failure.extra.get(key) is not None
            }
            proposal = Proposal(**{"hypothesis": "", **said})
            status, why = CandidateStatus.INVALID, failure.message
            candidate = refusal(context, spec.base, proposal, rule.name, spec.epoch, status, why)
        else:
            if proposal is None:
                why = "the estimator has nothing to propose"
                candidate = refusal(
                    context,
                    spec.base,
                    Proposal(hypothesis=""),
                    rule.name,
                    spec.epoch,
                    CandidateStatus.NO_CANDIDATE,
                    why,
                )
            else:
                candidate = capture(
                    context, workshop.worktree, version, proposal, estimator=rule.name, epoch=spec.epoch
                )
    context.store.put_candidate(candidate)
    context.bus.emit(
        "propose.finished",
        candidate.hypothesis or candidate.reason,
        candidate=candidate.id,
        status=candidate.status.value,
        reason=candidate.reason,
        commit=candidate.commit,
    )
    return candidate


def diagnose(context: Context, spec: DiagnoseSpec, estimator: Estimator | None = None) -> Memo:
    """Write the memo after an epoch.  When the estimator cannot, the memo is made of facts alone, and says so."""
    rule = estimator or _load(context, spec.estimator)
    about = ProposeSpec(base=spec.base, base_run=None, epoch=spec.epoch)
    author = rule.name
    with _workshop(context, rule, spec.base) as workshop, _staged(context, about) as evidence:
        try:
            diagnosis = rule.diagnose(workshop, evidence, spec.verdict, spec.outcome)
        except ProposalFailure as failure:
            context.bus.emit("warning", f"the estimator wrote no memo: {failure.message}")
            author = "harnesstrain"
            facts = facts_memo(evidence, spec.outcome)
            spent = {key: failure.extra[key] for key in ("usage", "transcript") if failure.extra.get(key) is not None}
            diagnosis = Diagnosis(memo=facts, **spent)
    said = {
        "text": "\n".join(diagnosis.memo.splitlines()[:MEMO_LINES]) + "\n",
        "epoch": spec.epoch,
        "verdict": spec.verdict.id if spec.verdict else None,
        "author": author,
        "usage": diagnosis.usage.model_dump(),
        "transcript": keep(context, diagnosis.transcript),
    }
    memo = Memo.model_validate({**said, "id": digest(said)})
    context.store.put_memo(memo)
    return memo


def _load(context: Context, name: str | None) -> Estimator:
    estimator: Estimator = plugin("estimators", name or context.settings.loop.estimator)()
    return estimator


@contextmanager
def _workshop(context: Context, rule: Estimator, base: str) -> Iterator[Workshop]:
    settings = context.settings
    manifest = context.repo.version(base).manifest
    with (
        context.repo.worktree(base, visible=manifest.visible) as worktree,
        _private(context, "estimator") as scratch,
    ):
        yield Workshop(
            worktree=worktree,
            scratch=scratch,
            manifest=manifest,
            options=settings.estimator.get(rule.name, {}),
            resolve=settings.resolve,
            environ=context.environ,
            model=lambda: context.devices.bench.model,
            stop=context.stop,
            isolated=not settings.sandbox.allow_unisolated,
            say=lambda text: context.bus.emit("propose.progress", text),
        )


@contextmanager
def _staged(context: Context, spec: ProposeSpec) -> Iterator[Evidence]:
    with _private(context, "evidence") as directory:
        yield staging.stage(context, directory, spec.base, spec.epoch, spec.base_run)


@contextmanager
def _private(context: Context, label: str) -> Iterator[Path]:
    """A directory for this user alone, beside the worktrees: what a killed process leaves is swept with them."""
    with scratch(context.repo.state / "worktrees", label) as directory:
        directory.chmod(0o700)
        yield directory
