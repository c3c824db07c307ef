"""What a run spent, on what, and what that bought: tokens, calls and time, for each task and for each solve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.verdict import Levers
from harnesstrain.judge.comparison import Comparison, levers, mode


class TaskLevers(Record):
    """One compared cell, both sides."""

    task: str
    seed: int
    base: Levers
    cand: Levers | None
    """None: only a baseline was measured."""
    unchanged: bool = False
    """Same requests, same actions, same grade."""


class Spent(Record):
    """One side in numbers; every share and mean is None where it has no meaning."""

    solved: int
    cells: int
    llm_calls: int
    actions: int
    usage: Usage
    in_solves: int
    """Prompt and completion tokens of rollouts that solved their task."""
    invalid: int | None
    """Replies that were not acted on without a repair, as the harness noted it; None: it notes nothing."""
    recorded_time: float
    """Seconds."""

    @property
    def useful_share(self) -> float | None:
        """Tokens of solving rollouts out of all tokens."""
        return self.in_solves / self.usage.total if self.usage.total else None

    @property
    def tokens_per_solve(self) -> float | None:
        """All tokens, those of failures too, for each solve."""
        return self.usage.total / self.solved if self.solved else None

    @property
    def calls_per_solve(self) -> float | None:
        """All model calls, those of failures too, for each solve."""
        return self.llm_calls / self.solved if self.solved else None

    @property
    def tokens_per_call(self) -> float | None:
        """Prompt and completion tokens of a call, on average."""
        return self.usage.total / self.llm_calls if self.llm_calls else None

    @property
    def seconds_per_solve(self) -> float | None:
        """Recorded seconds, those of failures too, for each solve."""
        return self.recorded_time / self.solved if self.solved else None


class ModeSpent(Record):
    """Rollouts that ended in one way, and what they took."""

    mode: str
    base_cells: int = 0
    base_tokens: int = 0
    cand_cells: int = 0
    cand_tokens: int = 0


class Conversion(Record):
    """How often a way to fail became a solve."""

    mode: str
    """Of the baseline."""
    cells: int
    """Compared cells in which the baseline ended so."""
    solved: tuple[str, ...]
    """Of them, those that the candidate solved."""


class Spending(Record):
    """Both sides over the compared cells."""

    base: Spent
    cand: Spent | None = None
    tasks: tuple[TaskLevers, ...] = ()
    """In panel order."""
    modes: tuple[ModeSpent, ...] = ()
    """Ways to end, the largest share of tokens first."""
    conversions: tuple[Conversion, ...] = ()
    """Ways to fail, the most frequent first."""

    @property
    def solved_by_both(self) -> tuple[TaskLevers, ...]:
        """The cells that both sides solve: there a difference in cost is not one in what is solved."""
        return tuple(one for one in self.tasks if one.base.solved and one.cand is not None and one.cand.solved)

    @property
    def moved(self) -> tuple[int, int]:
        """Cells that took more tokens than before, and cells that took fewer."""
        both = [(one.base.usage.total, one.cand.usage.total) for one in self.tasks if one.cand is not None]
        return sum(new > old for old, new in both), sum(new < old for old, new in both)


def spending(rollouts: Sequence[Rollout], comparison: Comparison | None) -> Spending:
    """What was spent.  `rollouts`: the baseline's newest attempts, for a report without a candidate."""
    if comparison is None:
        tasks = tuple(TaskLevers(task=r.task, seed=r.seed, base=levers([r]), cand=None) for r in rollouts)
        return Spending(base=spent(rollouts), tasks=tasks, modes=_modes(rollouts, ()))
    before = [pair.base for pair in comparison.pairs]
    after = [pair.cand for pair in comparison.pairs]
    return Spending(
        base=spent(before),
        cand=spent(after),
        tasks=tuple(
            TaskLevers(
                task=pair.task,
                seed=pair.seed,
                base=levers([pair.base]),
                cand=levers([pair.cand]),
                unchanged=pair.unchanged,
            )
            for pair in comparison.pairs
        ),
        modes=_modes(before, after),
        conversions=_conversions(comparison),
    )


def spent(rollouts: Sequence[Rollout]) -> Spent:
    """Sums over rollouts."""
    sums = levers(rollouts)
    solves = [one for one in rollouts if one.solved]
    return Spent(
        solved=sums.solved,
        cells=sums.cells,
        llm_calls=sums.llm_calls,
        actions=sums.actions,
        usage=sums.usage,
        in_solves=sum(one.usage.total for one in solves),
        invalid=sums.first_try_total - sums.first_try_valid if sums.first_try_total else None,
        recorded_time=sums.recorded_time,
    )


def _modes(before: Iterable[Rollout], after: Iterable[Rollout]) -> tuple[ModeSpent, ...]:
    found: dict[str, ModeSpent] = {}
    for side, rollouts in (("base", before), ("cand", after)):
        for one in rollouts:
            old = found.get(mode(one), ModeSpent(mode=mode(one)))
            cells, tokens = f"{side}_cells", f"{side}_tokens"
            more = {cells: getattr(old, cells) + 1, tokens: getattr(old, tokens) + one.usage.total}
            found[old.mode] = old.model_copy(update=more)
    return tuple(sorted(found.values(), key=lambda one: (-one.base_tokens - one.cand_tokens, one.mode)))


def _conversions(comparison: Comparison) -> tuple[Conversion, ...]:
    several = len(comparison.base_run.seeds) > 1
    cells: dict[str, int] = {}
    solved: dict[str, list[str]] = {}
    for pair in comparison.pairs:
        if pair.base.solved:
            continue
        how = mode(pair.base)
        cells[how] = cells.get(how, 0) + 1
        if pair.cand.solved:
            solved.setdefault(how, []).append(f"{pair.task}#{pair.seed}" if several else pair.task)
    found = [Conversion(mode=how, cells=count, solved=tuple(solved.get(how, ()))) for how, count in cells.items()]
    return tuple(sorted(found, key=lambda one: (-len(one.solved), -one.cells, one.mode)))
