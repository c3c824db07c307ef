"""The stage: align two runs of one regime, let a criterion judge, hand the verdict back."""

from __future__ import annotations

from harnesstrain.core.errors import Incomplete
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.core.registry import load as plugin
from harnesstrain.judge.base import Criterion
from harnesstrain.measure.context import Context
from harnesstrain.measure.resuming import resume
from harnesstrain.stages.judging.derive import comparison_of


class JudgeSpec(Record):
    """Two runs to be compared."""

    base_run: str
    cand_run: str
    criterion: str | None = None
    """Registered name or module:Class; None: the configured one."""
    record: bool = True
    """Write the verdict to the store."""


def run(context: Context, spec: JudgeSpec, criterion: Criterion | None = None) -> Verdict:
    """The verdict of `criterion` (default: the one the spec or the settings name).

    Judging the same runs by the same criterion again gives the same id.  Raises Incomplete (a run has unmeasured
    cells), UsageError (the runs were measured under different regimes).
    """
    store = context.store
    for name, identifier in (("baseline", spec.base_run), ("candidate", spec.cand_run)):
        if not store.is_complete(identifier):
            begun = store.run(identifier)
            msg = f"the {name}'s run {identifier[:8]} ({begun.place}) is not complete"
            raise Incomplete(msg, hint=f"`{resume(context, begun)}` goes on with it", run=identifier)
    rule: Criterion = criterion or plugin("criteria", spec.criterion or context.settings.loop.criterion)()
    verdict = rule.judge(comparison_of(store, spec.base_run, spec.cand_run))
    if spec.record:
        store.put_verdict(verdict)
        context.bus.emit("judged", verdict.sentence, verdict=verdict.id, decision=verdict.decision.value)
    return verdict
