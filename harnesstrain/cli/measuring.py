"""What `ht evaluate` says of a run, and which exit code follows from it."""

from __future__ import annotations

from collections.abc import Iterable

from harnesstrain.core.errors import Incomplete, Unmeasurable
from harnesstrain.stages.evaluate import Estimate, Evaluated


def line_of(result: Evaluated | Estimate) -> str:
    """The line on stdout: the run's id, or what would be run."""
    if isinstance(result, Evaluated):
        return result.run
    cost = ""
    if result.tokens is not None:
        cost = f", about {result.tokens} tokens and {result.seconds:g} s"
    return f"run {result.run[:8]}: {result.cells} cells, {result.done} done, {result.to_run} to run{cost}"


def check(result: Evaluated | Estimate) -> None:
    """Raise Incomplete when a run has cells left."""
    if isinstance(result, Evaluated) and not result.complete:
        msg = f"{result.cells - result.done} of {result.cells} cells are missing"
        raise Incomplete(msg, hint="the same command resumes", run=result.run)


def check_infra(results: Iterable[Evaluated | Estimate]) -> None:
    """Raise Unmeasurable when cells ended in infrastructure failures."""
    lost = sum(result.infra for result in results if isinstance(result, Evaluated))
    if lost:
        msg = f"{lost} cells ended in infrastructure failures"
        raise Unmeasurable(msg, hint="`ht evaluate --retry-infra` tries them again; `ht show RUN` names them")
