"""An action that is executed again and gives something else than its record."""

from __future__ import annotations

from typing import ClassVar

from harnesstrain.core.errors import InfraFailure
from harnesstrain.core.records.rollout import Drift
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.rollout.chain import Link
from harnesstrain.rollout.evidence import difference
from harnesstrain.sandbox.scrub import scrubbed_digest


class Drifted(InfraFailure):
    """The environment did not come back as recorded.  Nothing that follows would be a measurement."""

    kind: ClassVar[str] = "forked"

    def __init__(self, drift: Drift) -> None:
        first = (drift.command.strip().splitlines() or [""])[0][:120]
        super().__init__(f"step {drift.step} did not repeat: {first}", hint="`ht certify env` names what differs")
        self.drift = drift


def compare(link: Link, again: RunResult) -> None:
    """Compare a result with its record.  An action that timed out is compared by having timed out.

    Raises Drifted.
    """
    recorded, command = link.entry.result, link.action.command
    if recorded.timed_out and again.timed_out:
        return
    if scrubbed_digest(again, command) == link.entry.scrubbed:
        return
    shown = difference(recorded, again, command)
    raise Drifted(Drift(step=link.step, command=command, recorded=shown.recorded, observed=shown.observed))


def compare_states(link: Link, kept: str | None, again: str | None) -> None:
    """Compare the files of a kept state with those of a full re-execution.  Raises Drifted."""
    if kept is None or again is None or kept == again:
        return
    sides = {"recorded": f"files of the kept state: {kept}", "observed": f"files after full re-execution: {again}"}
    raise Drifted(Drift(step=link.step, command=link.action.command, **sides))
