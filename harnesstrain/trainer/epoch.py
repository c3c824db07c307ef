"""One epoch: baseline, certificate, proposal, candidate, verdict, promotion, memo.

Every stage leaves a record, so an epoch that was killed goes on from the last one: a run from its missing cells, a
proposal from its candidate, a verdict from its record.  The newest `Epoch` row of a number says how far it came.
"""

from __future__ import annotations

import time

from harnesstrain.core.errors import Incomplete, Unmeasurable
from harnesstrain.core.records.candidate import Candidate, CandidateStatus
from harnesstrain.core.records.verdict import Decision, Epoch, Verdict
from harnesstrain.judge.base import Criterion
from harnesstrain.measure.context import Context
from harnesstrain.stages import certify, evaluate, judging, propose
from harnesstrain.stages.promote import Promoted
from harnesstrain.stages.propose.base import Estimator
from harnesstrain.trainer.limits import Limits

STARTED, ABANDONED = "started", "abandoned"
EMPTY = ("skipped", "failed")
"""How an epoch without a valid candidate ends."""


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
        self._verdict: Verdict | None = None
        self.promoted: Promoted | None = None
        """What became of the candidate, once the optimizer acted."""
        self._row = self._open()
        context.bus.emit("epoch.started", epoch=self._row.number, base=self._row.base)

    @property
    def number(self) -> int:
        """From 1."""
        return self._row.number

    @property
    def candidate(self) -> Candidate:
        """The candidate that was proposed."""
        assert self._row.candidate is not None
        return self._context.store.candidate(self._row.candidate)

    @property
    def reason(self) -> str:
        """Why there was no candidate, or what became of it."""
        return self._row.reason

    def measure(self) -> Verdict | None:
        """The verdict, not yet recorded; None when there was no valid candidate (the epoch is then closed).

        Raises Incomplete when a limit or a stop left something to do, Unmeasurable when infrastructure failed the
        whole baseline; the epoch stays open.
        """
        if self._row.verdict is not None:  # interrupted after it was recorded
            self._verdict = self._context.store.verdict(self._row.verdict)
            return self._verdict
        base_run = self._evaluate(self._row.base, baseline=True)
        if self._context.settings.loop.certify:
            once = min(1, self._context.settings.loop.gradings)
            certify.run(self._context, certify.CertifySpec(run=base_run, gradings=once))
            certify.certify_harness(self._context, certify.HarnessSpec(run=base_run))
        self._write(base_run=base_run)
        candidate = self._propose(base_run)
        if candidate.status is not CandidateStatus.CANDIDATE or candidate.commit is None:
            self._skip(candidate)
            return None
        against = base_run if self._context.settings.loop.early_stop else None
        cand_run = self._evaluate(candidate.commit, against=against)
        self._write(cand_run=cand_run)
        verdict = self._judge(base_run, cand_run)
        attempts = -1
        while verdict.decision is Decision.UNMEASURABLE and verdict.not_needed and verdict.cand_attempts != attempts:
            attempts = verdict.cand_attempts  # a gain that had decided did not repeat: go on measuring
            self._evaluate(candidate.commit, against=against)
            verdict = self._judge(base_run, cand_run)
        self._verdict = verdict
        return verdict

    def recorded(self, verdict: Verdict) -> None:
        """The verdict was written to the store."""
        if verdict.id != self._row.verdict:
            self._write(verdict=verdict.id)

    def conclude(self) -> None:
        """After the caller acted on the loss: close the epoch and let the estimator write its memo."""
        verdict, promoted = self._verdict, self.promoted
        assert verdict is not None
        if promoted is not None and promoted.applied:
            state, reason = "promoted", verdict.sentence
        elif verdict.decision is Decision.UNMEASURABLE:
            state, reason = "unmeasurable", verdict.sentence
        elif promoted is not None:
            state, reason = "rejected", promoted.reason
        else:
            state, reason = "rejected", f"{verdict.sentence}; the optimizer was not asked to step"
        promotion = promoted.promotion.id if promoted is not None and promoted.promotion is not None else None
        self._close(state, reason, promotion=promotion)
        self._diagnose(self._row)

    # --- how it begins

    def _open(self) -> Epoch:
        """The epoch that was interrupted, or a new one.  What the last one left undone is done first."""
        last = next(iter(reversed(self._context.store.epochs())), None)
        head = self._head()
        if last is not None and last.state == STARTED:
            if head in (last.base, self._commit_of(last)):
                return last
            reason = f"the baseline moved from {last.base[:8]} to {head[:8]} meanwhile"
            last = last.model_copy(update={"state": ABANDONED, "reason": reason})
            self._context.store.put_epoch(last)
        elif last is not None and last.state != ABANDONED and not self._has_memo(last.number):
            self._diagnose(last)
        self._row = Epoch(number=last.number + 1 if last is not None else 1, base=head, state=STARTED)
        self._write()
        return self._row

    def _commit_of(self, epoch: Epoch) -> str | None:
        return self._context.store.candidate(epoch.candidate).commit if epoch.candidate is not None else None

    def _has_memo(self, number: int) -> bool:
        memo = self._context.store.memo()
        return memo is not None and memo.epoch == number

    # --- its stages

    def _evaluate(self, commit: str, *, baseline: bool = False, against: str | None = None) -> str:
        """The complete run of a version.  Cells of the baseline that infrastructure failed get another chance.

        `against`: the baseline's run; what cannot change the verdict against it is not measured.
        Raises Unmeasurable when it failed them all: nothing can be compared with such a baseline.
        """
        self._limits.check()
        spec = evaluate.EvaluateSpec(
            commit=commit, max_tokens=self._limits.tokens_left, retry_infra=baseline, against=against
        )
        done = evaluate.run(self._context, spec, self._criterion)
        self._limits.spend(done.tokens)
        if not done.complete:
            why = self._limits.why() or "cells are missing"
            msg = f"epoch {self.number} stopped after {done.done} of {done.cells} cells: {why}"
            raise Incomplete(msg, hint="the same command goes on from here", run=done.run)
        if baseline and done.infra == done.cells:
            msg = f"no cell of the baseline could be measured: all {done.cells} ended in infrastructure failures"
            raise Unmeasurable(msg, hint=f"`ht show {done.run[:8]}` names them; mend that and run this again")
        return done.run

    def _propose(self, base_run: str) -> Candidate:
        """This epoch's proposal: the recorded one, if it was interrupted after it."""
        store, row = self._context.store, self._row
        if row.candidate is not None:
            return store.candidate(row.candidate)
        made = [one for one in store.candidates() if (one.epoch, one.base) == (row.number, row.base)]
        if not made:
            self._limits.check()
            spec = propose.ProposeSpec(base=row.base, base_run=base_run, epoch=row.number)
            made = [propose.run(self._context, spec, self._estimator)]
            self._limits.spend(made[-1].usage.total)
        self._write(candidate=made[-1].id)
        return made[-1]

    def _judge(self, base_run: str, cand_run: str) -> Verdict:
        """Judge.  A gain counts only when its commands give the same outputs again, and its harness does the same.

        Both sides of a gain are graded again, for a verifier may have agreed with itself once by luck.  The candidate's
        harness is played back wherever it flips a task: what does not repeat itself is no effect of it.
        """
        spec = judging.JudgeSpec(base_run=base_run, cand_run=cand_run, record=False)
        verdict = judging.run(self._context, spec, self._criterion)
        gained = tuple(dict.fromkeys(flip.task for flip in verdict.gained))
        flipped = tuple(dict.fromkeys(flip.task for flip in (*verdict.gained, *verdict.lost)))
        if flipped and self._context.settings.loop.certify:
            if gained and verdict.selected:
                times = self._context.settings.loop.gradings
                for run in (cand_run, base_run):
                    certify.run(self._context, certify.CertifySpec(run=run, tasks=gained, gradings=times))
            certify.certify_harness(self._context, certify.HarnessSpec(run=cand_run, tasks=flipped))
            verdict = judging.run(self._context, spec, self._criterion)
        self._context.bus.emit(
            "judged", verdict.sentence, verdict=verdict.id, decision=verdict.decision.value, epoch=self.number
        )
        return verdict

    def _skip(self, candidate: Candidate) -> None:
        self._close("skipped" if candidate.status is CandidateStatus.NO_CANDIDATE else "failed", candidate.reason)
        self._context.bus.emit("epoch.skipped", candidate.reason, epoch=self.number)
        self._diagnose(self._row)

    def _diagnose(self, row: Epoch) -> None:
        """Have the memo of a closed epoch written."""
        store = self._context.store
        candidate = store.candidate(row.candidate) if row.candidate is not None else None
        title = (candidate.hypothesis or candidate.status.value) if candidate is not None else "no proposal"
        spec = propose.DiagnoseSpec(
            base=self._head(),
            base_run=row.base_run,
            epoch=row.number,
            verdict=store.verdict(row.verdict) if row.verdict is not None else None,
            outcome=f"{title}: {row.state} ({row.reason})",
        )
        memo = propose.diagnose(self._context, spec, self._estimator)
        self._limits.spend(memo.usage.total)

    def _head(self) -> str:
        branch = self._context.settings.harness.branch or self._context.repo.branch()
        return self._context.repo.branch_head(branch)

    def _close(self, state: str, reason: str, **more: object) -> None:
        seconds = round(time.monotonic() - self._began, 1)
        self._write(state=state, reason=reason, seconds=seconds, **more)

    def _write(self, **changes: object) -> None:
        self._row = self._row.model_copy(update=changes)
        self._context.store.put_epoch(self._row)


def failures_in_a_row(context: Context) -> int:
    """Epochs without a valid candidate at the end of the store's history."""
    count = 0
    for epoch in reversed(context.store.epochs()):
        if epoch.state not in EMPTY:
            break
        count += 1
    return count
