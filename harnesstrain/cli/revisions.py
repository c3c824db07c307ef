"""Names for harness versions: `@` the promoted baseline, `@~2`, `e7` epoch 7's candidate, any git revision, any id.

A revision name beats an id prefix of the same letters; `id:e7ab` forces the id.  Ranges are `base..cand`; an empty
side is `@`, as git has HEAD; `..` alone names nothing.  `-` reads one name a line from stdin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harnesstrain.cli import output
from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.core.ids import SHORTEST, is_hex
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.run import Run

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context


class Range(Record):
    """Two harness versions."""

    base: str
    cand: str


def arguments(values: Sequence[str]) -> list[str]:
    """The names given, `-` replaced by the first word of each line of stdin.

    An empty stdin is nothing to do: the command before the pipe has said why, and its exit code counts.
    """
    found: list[str] = []
    for value in values:
        if value == "-":
            lines = [line.split()[0] for line in output.received().splitlines() if line.strip()]
            if not lines:
                output.say("stdin held no id; nothing to do")
            found += lines
        else:
            found.append(value)
    return found


def commit_of(context: Context, name: str) -> str:
    """The commit a name stands for.  Raises NotFound, Ambiguous, UsageError."""
    branch = context.settings.harness.branch or "HEAD"
    if name == "@":
        return baseline(context)
    if match := re.fullmatch(r"@~(\d+)", name):
        return _before(context, f"{branch}~{match.group(1)}", name)
    if match := re.fullmatch(r"e(\d+)(\^?)", name):
        return _epoch(context, int(match.group(1)), parent=bool(match.group(2)))
    if name.startswith("id:"):
        return _by_id(context, name[3:])
    try:
        return context.repo.resolve(name)
    except NotFound:
        if len(name) >= SHORTEST and is_hex(name):
            return _by_id(context, name)
        raise


def baseline(context: Context) -> str:
    """The promoted baseline: where the trained branch stands.  Raises UsageError when HEAD is detached."""
    return context.repo.branch_head(context.settings.harness.branch or context.repo.branch())


def range_of(context: Context, text: str) -> Range:
    """`base..cand`.  Raises UsageError when it is no range."""
    if ".." not in text:
        msg = f"'{text}' is no range"
        raise UsageError(msg, hint="write BASE..CAND, or ..CAND for the baseline's side")
    left, _, right = text.partition("..")
    if not left and not right:
        raise UsageError(f"'{text}' names no version", hint="write BASE..CAND, or ..CAND for the baseline's side")
    base, cand = (commit_of(context, side) if side else baseline(context) for side in (left, right))
    return Range(base=base, cand=cand)


def measured_here(run: Run) -> Run:
    """A run of a version of this repo.  Raises UsageError for one that was imported."""
    if run.imported is not None:
        msg = f"run {run.id[:8]} was imported from {run.imported.program}: no version here stands for it"
        raise UsageError(msg, hint="`ht judge RUN..RUN` and `ht report --compare RUN..RUN` compare imported runs")
    return run


def _before(context: Context, rev: str, name: str) -> str:
    try:
        return context.repo.resolve(rev)
    except NotFound:
        msg = f"'{name}' is before the first commit"
        raise NotFound(msg, hint="`git log` lists commits") from None


def _epoch(context: Context, number: int, *, parent: bool) -> str:
    epoch = context.store.epoch(number)
    if parent:
        return epoch.base
    if epoch.candidate is None:
        msg = f"epoch {number} has no candidate"
        raise NotFound(msg, hint="`ht log` shows what each epoch did")
    return _commit(context.store.candidate(epoch.candidate))


def _by_id(context: Context, prefix: str) -> str:
    found = context.store.resolve(prefix, kinds=("run", "candidate", "verdict"))
    if found.kind == "run":
        return measured_here(context.store.run(found.id)).commit
    if found.kind == "verdict":
        verdict = context.store.verdict(found.id)
        return measured_here(context.store.run(verdict.cand_run)).commit
    return _commit(context.store.candidate(found.id))


def _commit(candidate: Candidate) -> str:
    if candidate.commit is None:
        msg = f"candidate {candidate.id[:8]} has no commit: {candidate.reason}"
        raise NotFound(msg, hint="`ht show` tells more")
    return candidate.commit


def commits_of(context: Context, name: str) -> list[str]:
    """The commits a name stands for: two for a range, baseline first, else one."""
    if ".." not in name:
        return [commit_of(context, name)]
    pair = range_of(context, name)
    return [pair.base, pair.cand]
