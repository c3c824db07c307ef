"""From a rule to a verdict, with infrastructure noise bracketed.

The rule is asked three times: over what was measured, with every open cell turned out well for the candidate, and with
every open cell turned out ill.  Unknown baselines are turned too.  If the three disagree on selecting, or one of them
needs a tie-break (whose metrics the open cells would enter), nobody knows: the verdict is `unmeasurable`, loss 0, and
never a rejection.  So making a known cell unknown can turn a verdict into `unmeasurable`, and into nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.verdict import Decision, Flip, Verdict
from harnesstrain.judge.base import Loss, Rule, Tally
from harnesstrain.judge.comparison import Comparison

NAMED = 5
"""Cells named in a sentence."""


class Bracket(Record):
    """A rule's three answers."""

    measured: Loss
    best: Loss
    worst: Loss

    @property
    def settled(self) -> bool:
        """Whether measuring the open cells cannot change what is selected."""
        answers = (self.measured, self.best, self.worst)
        known = all(loss.primary and not loss.doubt for loss in answers)
        return known and len({loss.value < 0 for loss in answers}) == 1


def bracket(rule: Rule, comparison: Comparison) -> Bracket:
    """Ask `rule` over the measured cells and over both extremes of the open ones."""
    return Bracket(
        measured=rule.loss(_tally(comparison, ())),
        best=rule.loss(_tally(comparison, _supposed(comparison, favourable=True))),
        worst=rule.loss(_tally(comparison, _supposed(comparison, favourable=False))),
    )


def judged(rule: Rule, comparison: Comparison) -> Verdict:
    """The verdict of a rule.  Deterministic: same comparison, same verdict, same id."""
    answers = bracket(rule, comparison)
    doubt = _doubt(answers, comparison)
    if doubt is not None:
        decision, loss, sentence = Decision.UNMEASURABLE, 0.0, doubt
    else:
        loss, sentence = answers.measured.value, _unchanged(comparison) or answers.measured.sentence
        decision = Decision.SELECTED if loss < 0 else Decision.REJECTED
    inputs = comparison.inputs
    return Verdict(
        id=identify(comparison.base_run.id, comparison.cand_run.id, rule.name, inputs),
        base_run=comparison.base_run.id,
        cand_run=comparison.cand_run.id,
        base_commit=comparison.base_run.commit,
        cand_commit=comparison.cand_run.commit,
        regime=comparison.base_run.regime,
        criterion=rule.name,
        decision=decision,
        loss=loss,
        sentence=sentence,
        gained=comparison.gained,
        lost=comparison.lost,
        hollow=comparison.hollow,
        excluded=(*comparison.excluded, *comparison.absent),
        unmeasurable=comparison.unmeasurable,
        base=comparison.base,
        cand=comparison.cand,
        p_value=comparison.p_value,
        detectable=comparison.detectable,
        proven_unchanged=comparison.proven_unchanged,
        certificates=comparison.certificates,
        certified=comparison.certified,
        base_attempts=comparison.base_attempts,
        cand_attempts=comparison.cand_attempts,
        inputs=inputs,
    )


def identify(base_run: str, cand_run: str, criterion: str, inputs: str) -> str:
    """The verdict's id: who was judged, by what, from what."""
    return digest({"base": base_run, "cand": cand_run, "criterion": criterion, "inputs": inputs})


def named(flips: Sequence[Flip]) -> str:
    """The tasks of some flips for a sentence: the first few by name, with the seed where a task flips on several."""
    tasks = [flip.task for flip in flips]
    words = [f.task if tasks.count(f.task) == 1 else f"{f.task}#{f.seed}" for f in flips[:NAMED]]
    more = f" and {len(flips) - NAMED} more" if len(flips) > NAMED else ""
    return ", ".join(words) + more


def _doubt(answers: Bracket, comparison: Comparison) -> str | None:
    if not comparison.pairs:
        counts = f"{len(comparison.excluded)} excluded, {len(comparison.open)} not measured"
        return f"no cell could be compared ({counts})"
    if answers.measured.doubt:
        return answers.measured.doubt
    if comparison.open and not answers.settled:
        cells = ", ".join(dict.fromkeys(cell.task for cell in comparison.open[:NAMED]))
        more = f" and {len(comparison.open) - NAMED} more" if len(comparison.open) > NAMED else ""
        return f"cells that were not measured could change the verdict: {cells}{more}"
    return None


def _unchanged(comparison: Comparison) -> str:
    """What to say of a change that had no effect anywhere; empty when it had."""
    count = len(comparison.pairs)
    if comparison.proven_unchanged < count or comparison.open:
        return ""
    what = "tasks" if len(comparison.base_run.seeds) == 1 else "cells"
    which = f"all {count} compared {what}" if comparison.excluded else f"all {count} {what}"
    return f"no change: {which} proven unchanged"


def _supposed(comparison: Comparison, *, favourable: bool) -> tuple[Flip, ...]:
    flips = (cell.supposed(favourable=favourable) for cell in comparison.open)
    return tuple(flip for flip in flips if flip is not None)


def _tally(comparison: Comparison, supposed: tuple[Flip, ...]) -> Tally:
    return Tally(
        gained=(*comparison.gained, *(flip for flip in supposed if flip.gained)),
        lost=(*comparison.lost, *(flip for flip in supposed if not flip.gained)),
        pairs=comparison.pairs,
        deterministic=comparison.deterministic,
    )
