"""What limits a task, from outcomes of several versions on several models: the harness, the model, or nobody knows.

A label is about one task on one model, and rests on two contrasts.

harness-limited   another version solved it with the same model: the model can, this version cannot
model-limited     no version solved it with this model, and one of them solved it with another model

A contrast is between a side that solved and one that was measured with every seed and solved with none.  Where models
and harnesses repeat themselves, one seed that tells them apart is a fact.  Where they do not, Fisher's exact test must
reject chance, corrected for the number of sides that were looked at.  An unknown cell never counts as a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from harnesstrain.core.records.base import Record
from harnesstrain.judge.statistics import ALPHA, fisher


class Label(StrEnum):
    """What is known of a task on a model."""

    SOLVED = "solved"
    """By every version with every seed."""
    HARNESS = "harness-limited"
    MODEL = "model-limited"
    UNSOLVED = "unsolved"
    """By no version on any model: neither limit is shown."""
    MIXED = "mixed"
    """Solved at times; or the difference may be chance."""
    OPEN = "open"
    """A cell that is not known could decide it, or fewer than two versions were measured on the model."""


class Tried(Record):
    """One harness version on one model: what came of each task."""

    harness: str
    """Commit."""
    model: str
    """Fingerprint of the endpoint."""
    repeats: bool
    """Whether model and harness repeat themselves, as far as is known."""
    outcomes: dict[str, tuple[bool | None, ...]]
    """Solved or not, by task, seed by seed; None: not known.  A task that is not there is not known."""

    def solves(self, task: str) -> int:
        """Seeds that solved it."""
        return sum(one is True for one in self.outcomes.get(task, ()))

    def known(self, task: str) -> bool:
        """Whether every seed's outcome is known."""
        found = self.outcomes.get(task, ())
        return bool(found) and None not in found

    def fails(self, task: str) -> bool:
        """Whether every seed was measured and none solved it."""
        return self.known(task) and not self.solves(task)


class Limit(Record):
    """What is known of one task on one model."""

    task: str
    model: str
    """Fingerprint."""
    label: Label
    solved_by: tuple[str, ...] = ()
    """Versions that solved it here with at least one seed."""
    limited: tuple[str, ...] = ()
    """harness-limited: the versions that this is said of."""
    witness: str | None = None
    """A version that shows it: one that solved it here; for model-limited, one that solved it on another model."""
    elsewhere: tuple[str, ...] = ()
    """model-limited: the models on which the witness solved it."""
    p_value: float | None = None
    """The largest corrected p of the contrasts; None where everything repeats itself and none is needed."""


class _Shown(Record):
    winner: Tried
    p_value: float | None


def compared(tried: Iterable[Tried]) -> tuple[str, ...]:
    """The versions that were measured on at least two models, in the order of their first appearance."""
    models: dict[str, set[str]] = {}
    for one in tried:
        models.setdefault(one.harness, set()).add(one.model)
    return tuple(harness for harness, found in models.items() if len(found) > 1)


def limits(tried: Sequence[Tried], tasks: Sequence[str]) -> tuple[Limit, ...]:
    """One limit for every task and model, task by task, models in the order of their first appearance.

    Labels are said of the versions that `compared` names.  A solve by any other version counts as evidence.  Empty
    unless at least two versions were measured on at least two models.  One Tried for a version and model.
    """
    rows = compared(tried)
    models = tuple(dict.fromkeys(one.model for one in tried if one.harness in rows))
    if len(rows) < 2:
        return ()
    return tuple(_limit(tried, rows, task, model) for task in tasks for model in models)


def _limit(tried: Sequence[Tried], rows: Sequence[str], task: str, model: str) -> Limit:
    here = [one for one in tried if one.model == model]
    there = [one for one in tried if one.model != model]
    shown = [one for one in here if one.harness in rows]
    solved_by = tuple(one.harness for one in here if one.solves(task))
    found = Limit(task=task, model=model, label=Label.OPEN, solved_by=solved_by)
    if len(shown) < 2:
        return found
    known = all(one.known(task) for one in shown)
    if solved_by:
        losers = {one.harness: _contrast(task, here, one, len(here) - 1) for one in shown if one.fails(task)}
        proven = {harness: contrast for harness, contrast in losers.items() if contrast is not None}
        if proven:
            return _labelled(found, Label.HARNESS, list(proven.values()), limited=tuple(proven))
        if not known:
            return found
        every = all(one.solves(task) == len(one.outcomes[task]) for one in shown)
        return found.model_copy(update={"label": Label.SOLVED if every else Label.MIXED})
    if not known:
        return found
    same = [(one, [other for other in there if other.harness == one.harness]) for one in shown]
    looks = sum(len(others) for _, others in same)
    found_elsewhere = [_contrast(task, others, one, looks) for one, others in same]
    if contrasts := [contrast for contrast in found_elsewhere if contrast is not None]:
        best = min(contrasts, key=lambda one: one.p_value or 0.0)
        elsewhere = tuple(t.model for t in there if t.harness == best.winner.harness and t.solves(task))
        return _labelled(found, Label.MODEL, [best], elsewhere=elsewhere)
    harnesses = {one.harness for one in shown}
    if any(one.solves(task) for one in there):
        chance = any(one.solves(task) and one.harness in harnesses for one in there)
        return found.model_copy(update={"label": Label.MIXED if chance else Label.OPEN})
    if all(one.known(task) for one in there if one.harness in rows):
        return found.model_copy(update={"label": Label.UNSOLVED})
    return found


def _labelled(found: Limit, label: Label, contrasts: Sequence[_Shown], **more: tuple[str, ...]) -> Limit:
    values = [one.p_value for one in contrasts if one.p_value is not None]
    return found.model_copy(
        update={
            "label": label,
            "witness": contrasts[0].winner.harness,
            "p_value": max(values) if values else None,
            **more,
        }
    )


def _contrast(task: str, sides: Sequence[Tried], loser: Tried, looks: int) -> _Shown | None:
    """The side that differs from `loser` beyond chance, if one does: the clearest.  `looks`: contrasts looked at."""
    best: _Shown | None = None
    for one in sides:
        if not one.solves(task):
            continue
        if one.repeats and loser.repeats:
            return _Shown(winner=one, p_value=None)
        known = sum(outcome is not None for outcome in one.outcomes[task])
        p_value = min(1.0, looks * fisher(one.solves(task), known, 0, len(loser.outcomes[task])))
        if p_value <= ALPHA and (best is None or p_value < (best.p_value or 0.0)):
            best = _Shown(winner=one, p_value=p_value)
    return best
