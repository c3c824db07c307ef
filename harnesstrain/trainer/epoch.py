"""One epoch: baseline, certificate, proposal, candidate, verdict, promotion, memo.

Every stage leaves a record, so an epoch that was killed goes on from the last one: the run from its missing cells, the
proposal from its candidate.  `Epoch` rows say how far it came; the newest row of a number counts.
"""

from __future__ import annotations

import time

from harnesstrain.core.errors import Incomplete
from harnesstrain.core.records.candidate import Candidate, CandidateStatus
from harnesstrain.core.records.verdict import Decision, Epoch, Verdict
from harnesstrain.judge.base import Criterion
from harnesstrain.measure.context import Context
from harnesstrain.stages import certify, evaluate, judging, propose
from harnesstrain.stages.promote import Promoted
from harnesstrain.stages.propose.base import Estimator
from harnesstrain.trainer.limits import Limits

STARTED = "started"
OPEN = (STARTED, "proposed", "judged")
"""States of an epoch that can be continued."""


class Turn:
    """One epoch in the making: a new one, or the one that was interrupted."""

    def __init__(
        self, context: Context, limits: Limits, *, estimator: Estimator | None, criterion: Criterion | None
    ) -> None:
        self._context = context
        self._limits = limits
        self._estimator = estimator
        self._criterion = criterion
        self._began = time.monotonic()
        self.promoted: Promoted | None = None
        self._verdict: Verdict | None = None
        last = next(iter(reversed(list(context.store.epochs()))), None)
        head = self._head()
        if last is not None and last.state in OPEN and last.base == head:
            self._row = last
        else:
            number = last.number + 1 if last is not None else 1
            self._row = Epoch(number=number, base=head, state=STARTED)
            self._write()
        context.bus.emit("epoch.started", epoch=self._row.number, base=self._row.base)

    @property
    def number(self) -> int:
        """From 1."""
        return self._row.number

    @property
    def candidate(self) -> Candidate:
        """The candidate that was measured."""
        assert self._row.candidate is not None
        return self._context.store.candidate(self._row.candidate)

    @property
    def reason(self) -> str:
        """Why there was no candidate, or what became of it."""
        return self._row.reason

    def measure(self) -> Verdict | None:
        """The verdict, not yet recorded; None when there was no valid candidate (the epoch is then closed).

        Raises Incomplete when a limit or a stop left cells; the epoch stays open.
        """
        base_run = self._evaluate(self._row.base)
        if self._context.settings.loop.certify:
            certify.run(self._context, certify.CertifySpec(run=base_run))
        self._write(base_run=base_run)
        candidate = self._propose(base_run)
        if candidate.status is not CandidateStatus.CANDIDATE or candidate.commit is None:
            self._skip(candidate)
            return None
        cand_run = self._evaluate(candidate.commit)
        self._write(cand_run=cand_run)
        spec = judging.JudgeSpec(base_run=base_run, cand_run=cand_run, record=False)
        self._verdict = judging.run(self._context, spec, self._criterion)
        self._context.bus.emit(
            "judged",
            self._verdict.sentence,
            verdict=self._verdict.id,
            decision=self._verdict.decision.value,
            epoch=self.number,
        )
        return self._verdict

    def conclude(self) -> None:
        """After the caller acted on the loss: close the epoch and let the estimator write its memo."""
        verdict = self._verdict
        assert verdict is not None
        recorded = any(known.id == verdict.id for known in self._context.store.verdicts())
        if self.promoted is not None and self.promoted.applied:
            state, reason = "promoted", verdict.sentence
        elif verdict.decision is Decision.UNMEASURABLE:
            state, reason = "unmeasurable", verdict.sentence
        else:
            state, reason = "rejected", self.promoted.reason if self.promoted else verdict.sentence
        promotion = self.promoted.promotion.id if self.promoted and self.promoted.promotion else None
        self._write(
            state=state,
            reason=reason,
            verdict=verdict.id if recorded else None,
            promotion=promotion,
            seconds=round(time.monotonic() - self._began, 1),
        )
        self._diagnose(verdict if recorded else None, f"{self.candidate.hypothesis}: {state} ({reason})")

    def _skip(self, candidate: Candidate) -> None:
        state = "skipped" if candidate.status is CandidateStatus.NO_CANDIDATE else "failed"
        self._write(state=state, reason=candidate.reason, seconds=round(time.monotonic() - self._began, 1))
        self._context.bus.emit("epoch.skipped", candidate.reason, epoch=self.number)
        self._diagnose(None, f"{candidate.hypothesis or 'no proposal'}: {candidate.status.value} ({candidate.reason})")

    def _evaluate(self, commit: str) -> str:
        spec = evaluate.EvaluateSpec(commit=commit, max_tokens=self._limits.tokens_left)
        done = evaluate.run(self._context, spec)
        self._limits.spend(done.tokens)
        if not done.complete:
            why = self._limits.why() or "cells are missing"
            msg = f"epoch {self.number} stopped after {done.done} of {done.cells} cells: {why}"
            raise Incomplete(msg, hint="the same command goes on from here", run=done.run)
        return done.run

    def _propose(self, base_run: str) -> Candidate:
        if self._row.candidate is not None:
            return self._context.store.candidate(self._row.candidate)
        spec = propose.ProposeSpec(base=self._row.base, base_run=base_run, epoch=self.number)
        candidate = propose.run(self._context, spec, self._estimator)
        self._limits.spend(candidate.usage.total)
        self._write(candidate=candidate.id)
        return candidate

    def _diagnose(self, verdict: Verdict | None, outcome: str) -> None:
        spec = propose.DiagnoseSpec(
            base=self._head(),
            base_run=self._row.base_run,
            epoch=self.number,
            verdict=verdict,
            outcome=outcome,
        )
        propose.diagnose(self._context, spec, self._estimator)

    def _head(self) -> str:
        branch = self._context.settings.harness.branch or self._context.repo.branch()
        return self._context.repo.branch_head(branch)

    def _write(self, **changes: object) -> None:
        self._row = self._row.model_copy(update=changes)
        self._context.store.put_epoch(self._row)
