"""What is asked of an evaluation, and what came of it."""

from __future__ import annotations

from pydantic import computed_field

from harnesstrain.core.records.base import Record


class EvaluateSpec(Record):
    """One harness version to be measured."""

    commit: str
    """40 hex."""
    panel: str | None = None
    """Name or path; None: the configured panel."""
    split: str | None = None
    """None: the configured split; `all`: every split but sealed."""
    include: tuple[str, ...] = ()
    """Globs of task names; empty: all."""
    exclude: tuple[str, ...] = ()
    seeds: int = 1
    """Rollouts per task: seeds 1..K."""
    fresh: str = ""
    """Salt: a non-empty one makes a new run of the same spec."""
    retry_infra: bool = False
    """Give cells that ended in an infrastructure outcome one attempt more."""
    jobs: int | None = None
    """Rollouts at once; None: the configured number."""
    max_tokens: int | None = None
    """Stop starting rollouts after this many tokens."""
    against: str | None = None
    """A baseline's run: measure only what can still change the verdict against it.  None: measure everything."""
    criterion: str | None = None
    """Whose verdict that is: a registered name or module:Class; None: the configured one."""
    endpoint: str | None = None
    """How the context's model was named; None: it is the configured one."""


class Evaluated(Record):
    """A run and how far it is."""

    run: str
    commit: str
    panel: str
    """Panel name."""
    split: str | None
    cells: int
    done: int
    executed: int
    """Attempts made by this command."""
    solved: int
    infra: int
    """Cells whose newest attempt ended in an infrastructure outcome."""
    tokens: int = 0
    """Tokens of the attempts made by this command."""
    from_caches: int = 0
    """Cells of which nothing ran but the harness: every reply, every action and the grade came from a cache."""
    not_needed: int = 0
    """Cells left unmeasured because they cannot change the verdict."""
    endpoint: str | None = None
    """How its model was named; None: the configured one."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def complete(self) -> bool:
        """Whether every cell has its result, or needs none."""
        return self.done + self.not_needed == self.cells


class Estimate(Record):
    """What an evaluation would do: the answer to --dry-run."""

    run: str
    commit: str
    panel: str
    split: str | None
    cells: int
    done: int
    to_run: int
    """At most so many, where the run may stop early."""
    early_stop: bool
    """Whether it may."""
    tokens: int | None
    """Estimated tokens, from the mean of past rollouts on this panel's tasks; None without history."""
    seconds: float | None
    """Estimated recorded seconds over the jobs at once; None without history."""
    endpoint: str | None = None
    """How its model was named; None: the configured one."""
