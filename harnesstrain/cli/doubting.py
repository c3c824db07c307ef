"""Why a verdict is unmeasurable, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certified, Regraded
from harnesstrain.core.records.verdict import Verdict

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context


class Doubt(Record):
    """A sentence and the next command."""

    message: str
    hint: str


def doubt_of(context: Context, verdict: Verdict) -> Doubt:
    """What an unmeasurable verdict lacks."""
    from harnesstrain.measure.resuming import retries

    message = f"unmeasurable: {verdict.sentence}"
    if verdict.not_needed:
        again = f"`ht evaluate {verdict.cand_commit[:8]} --exhaustive` measures the cells that were left out"
        return Doubt(message=message, hint=again)
    used = [one for one in context.store.certificates() if one.id in verdict.certificates]
    forks = {one.kind: one for one in used if one.result is Certified.FORKED}
    if not verdict.base.cells and not verdict.unmeasurable and forks:
        run = verdict.base_run[:8]
        if "harness" not in forks and forks["env"].grading is Regraded.OTHER:
            why, part = "the verifiers do not repeat themselves", "env"
        elif "harness" in forks:
            why, part = "the harness does not repeat itself on the same replies", "harness"
        else:
            why, part = "the environments do not repeat themselves", "env"
        return Doubt(message=f"{message}: {why}", hint=f"`ht certify {part} {run}` shows where")
    again = retries(context, (verdict.base_run, verdict.cand_run))
    return Doubt(message=message, hint=again or f"`ht show {verdict.id[:8]}` names the cells")
