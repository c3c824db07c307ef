"""A candidate's run against a baseline's: what to measure first, and when the rest cannot change the verdict."""

from __future__ import annotations

from typing import cast

from harnesstrain.core.errors import Incomplete
from harnesstrain.core.ids import short
from harnesstrain.core.registry import load as plugin
from harnesstrain.judge.base import Criterion, Rule
from harnesstrain.judge.early import Cell, order, undecided
from harnesstrain.measure.context import Context
from harnesstrain.measure.resuming import resume
from harnesstrain.stages.evaluate.identify import Identified
from harnesstrain.stages.evaluate.spec import EvaluateSpec
from harnesstrain.stages.judging.derive import Known, comparison_of


class Early:
    """Asks the criterion about what is recorded so far."""

    def __init__(self, context: Context, run: str, against: str, rule: Rule) -> None:
        """Raises UsageError when the runs are not comparable."""
        self._store = context.store
        self._run = run
        self._rule = rule
        self._known: Known = {}
        self.against = against
        excluded = comparison_of(self._store, against, run).excluded
        self.order = order(
            self._store.rollouts(against), excluded={Cell(task=one.task, seed=one.seed) for one in excluded}
        )
        """The cells in the order that decides soonest."""

    def decided(self) -> bool:
        """Whether no cell that is not measured could change the verdict."""
        return not undecided(self._rule, comparison_of(self._store, self.against, self._run, known=self._known))


def early(context: Context, spec: EvaluateSpec, identified: Identified, criterion: Criterion | None) -> Early | None:
    """What decides this run early; None when everything is to be measured: no baseline is named, the run is the
    baseline's own, or the criterion is no rule and can only judge whole runs.

    Raises Incomplete (the baseline has unmeasured cells), UsageError (the runs are not comparable).
    """
    against, run = spec.against, identified.run.id
    if against is None or against == run:
        return None
    if not context.store.is_complete(against):
        begun = context.store.run(against)
        msg = f"the baseline's run {short(against)} ({begun.place}) is not complete"
        raise Incomplete(msg, hint=f"`{resume(context, begun)}` goes on with it", run=against)
    judge: Criterion = criterion or plugin("criteria", spec.criterion or context.settings.loop.criterion)()
    if not callable(getattr(judge, "loss", None)):
        context.bus.emit("warning", f"the criterion '{judge.name}' judges whole runs only: everything is measured")
        return None
    return Early(context, run, against, cast(Rule, judge))
