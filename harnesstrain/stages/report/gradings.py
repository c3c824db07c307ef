"""Whether the verifiers repeat themselves, as far as certificates tell: that commands do says nothing of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harnesstrain.core.records.certificate import Certificate, Certified, Regraded
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.run import Run
from harnesstrain.judge.certification import Evidence
from harnesstrain.stages.report.records import Certification

Cells = dict[str, tuple[str, ...]]
"""Names of cells by a word."""
NEVER = "never"
"""Nobody graded again."""
NAMED = 6
"""Cells named in a sentence."""


def regraded(
    base: Run,
    cand: Run | None,
    before: Sequence[Rollout],
    after: Sequence[Rollout],
    certificates: Sequence[Certificate],
) -> dict[str, Cells]:
    """The fields of a Certification that tell of gradings: of the baseline's cells, and of gains."""
    solved = {(one.task, one.seed) for one in before if one.solved}
    gained = [one for one in after if one.solved and (one.task, one.seed) not in solved]
    gains = _graded_again(cand, gained, certificates) if cand is not None else {}
    return {"gradings": _graded_again(base, before, certificates), "gains": gains}


def _graded_again(run: Run, rollouts: Iterable[Rollout], certificates: Iterable[Certificate]) -> Cells:
    """Graded cells by what grading again showed: same, outcome, other, impossible, never.

    A cell whose commands did not repeat is not among them: no verdict counts it, whatever its verifier does.
    """
    if run.imported is not None:
        return {}
    evidence = Evidence(run.regime, certificates)
    found: dict[str, list[str]] = {}
    for rollout in rollouts:
        shown = _shown(rollout, evidence.of(rollout))
        if shown is not None:
            name = f"{rollout.task}#{rollout.seed}" if len(run.seeds) > 1 else rollout.task
            found.setdefault(shown, []).append(name)
    return {shown: tuple(sorted(names)) for shown, names in sorted(found.items())}


def _shown(rollout: Rollout, certificates: Sequence[Certificate]) -> str | None:
    """In one word; None: there is nothing to say."""
    if any(one.grading is Regraded.OTHER for one in certificates):
        return Regraded.OTHER
    if not rollout.graded or any(one.result is Certified.FORKED for one in certificates):
        return None
    told = {one.grading for one in certificates if one.gradings and one.reward == rollout.reward}
    for word in (Regraded.OUTCOME, Regraded.SAME):
        if word in told:
            return word
    failed = any(one.grading is Regraded.IMPOSSIBLE for one in certificates)
    return Regraded.IMPOSSIBLE if failed else NEVER


def repeats(shown: Certification) -> tuple[bool | None, bool, str]:
    """Whether the gradings repeat themselves (None: nobody knows), whether all do, and a sentence."""
    alike = [*_alike(shown.gradings), *_alike(shown.gains)]
    other = [*shown.gradings.get(Regraded.OTHER, ()), *shown.gains.get(Regraded.OTHER, ())]
    if not alike and not other:
        told = "Not checked: no baseline cell was graded again" if shown.gradings else "No baseline cell has a grade"
        failed = len(shown.gradings.get(Regraded.IMPOSSIBLE, ()))
        return None, False, f"{told}{f'; {failed} could not be' if failed else ''}."
    told = f"{len(_alike(shown.gradings))} of {_count(shown.gradings)} graded baseline cells"
    if shown.gains:
        gains = _count(shown.gains)
        told += f" and {len(_alike(shown.gains))} of {gains} gain{'s' if gains > 1 else ''}"
    told += " came out the same when they were graded again"
    if other:
        names = list(dict.fromkeys(other))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        told += f"; not {', '.join(names[:NAMED])}{more}, which no verdict counts"
    for word, text in (
        (Regraded.OUTCOME, "with another reward"),
        (Regraded.IMPOSSIBLE, "could not be graded again"),
        (NEVER, "not graded again"),
    ):
        count = len(shown.gradings.get(word, ())) + len(shown.gains.get(word, ()))
        told += f"; {count} {text}" if count else ""
    whole = {*shown.gradings, *shown.gains} == {Regraded.SAME.value}
    return not other, whole, f"{told}."


def _alike(cells: Cells) -> tuple[str, ...]:
    return (*cells.get(Regraded.SAME, ()), *cells.get(Regraded.OUTCOME, ()))


def _count(cells: Cells) -> int:
    return sum(map(len, cells.values()))
