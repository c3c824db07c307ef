"""What two aligned runs are: compared cells, cells left out, and cells that are unknown."""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.verdict import NOT_NEEDED, Excluded, Flip, Levers
from harnesstrain.judge.attribution import ATTRIBUTED, Attribution
from harnesstrain.judge.statistics import detectable, mcnemar

FORKED, NOT_CERTIFIED, MISSING = "forked", "not_certified", "missing"


class Pair(Record):
    """One cell, measured on both sides."""

    task: str
    seed: int
    base: Rollout
    cand: Rollout

    @property
    def flipped(self) -> bool:
        """Whether exactly one side solved it."""
        return self.base.solved != self.cand.solved

    @property
    def unchanged(self) -> bool:
        """Same requests, same actions, same grade: the change had no effect here."""
        return self.base.requests_digest is not None and (
            self.base.requests_digest,
            self.base.chain_digest,
            mode(self.base),
            self.base.reward,
        ) == (self.cand.requests_digest, self.cand.chain_digest, mode(self.cand), self.cand.reward)


class OpenCell(Record):
    """One cell whose result is unknown on at least one side."""

    task: str
    seed: int
    base_solved: bool | None
    """None: unknown."""
    cand_solved: bool | None
    reason: str
    """missing, not_needed, or the infrastructure outcome."""
    detail: str = ""

    @property
    def may_regress(self) -> bool:
        """Whether the candidate could turn out to lose what the baseline solved."""
        return self.cand_solved is None and self.base_solved is not False

    def supposed(self, *, favourable: bool) -> Flip | None:
        """The flip this cell would be if every unknown side turned out well, or ill, for the candidate."""
        base = not favourable if self.base_solved is None else self.base_solved
        cand = favourable if self.cand_solved is None else self.cand_solved
        if base == cand:
            return None
        return Flip(
            task=self.task,
            seed=self.seed,
            gained=cand,
            base_outcome=_word(base),
            cand_outcome=_word(cand),
            attribution=ATTRIBUTED,  # the extreme: nothing speaks against it
        )


class Comparison(Record):
    """Two runs, aligned.  Pure data: everything a criterion may look at."""

    base_run: Run
    cand_run: Run
    deterministic: bool = True
    """Whether the model endpoint repeats itself.  If not, secondary metrics decide nothing."""
    pairs: tuple[Pair, ...]
    """Compared cells, in panel order."""
    open: tuple[OpenCell, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    """Left out for good: forked, not_certified."""
    certificates: tuple[str, ...] = ()
    """Ids of the certificates that were consulted, sorted."""
    certified: bool = False
    """Whether cells without a certificate were left out."""
    base_attempts: int = 0
    """Rollouts of the baseline's run that were given, retries included."""
    cand_attempts: int = 0
    attributions: tuple[Attribution, ...] = ()
    """What is known of why cells flipped; a flip that has none was not looked at."""

    @property
    def flipped(self) -> tuple[Pair, ...]:
        """Compared cells that exactly one side solved."""
        return tuple(pair for pair in self.pairs if pair.flipped)

    @property
    def gained(self) -> tuple[Flip, ...]:
        """Compared cells that only the candidate solved."""
        return tuple(self._flip(pair) for pair in self.flipped if pair.cand.solved)

    @property
    def lost(self) -> tuple[Flip, ...]:
        """Compared cells that only the baseline solved."""
        return tuple(self._flip(pair) for pair in self.flipped if pair.base.solved)

    @property
    def hollow(self) -> tuple[Flip, ...]:
        """Compared cells that moved between unsolved outcomes.  No improvement."""
        unsolved = (pair for pair in self.pairs if not pair.base.solved and not pair.cand.solved)
        return tuple(self._flip(pair) for pair in unsolved if mode(pair.base) != mode(pair.cand))

    @property
    def base(self) -> Levers:
        """Secondary measurements of the baseline over the compared cells."""
        return levers([pair.base for pair in self.pairs])

    @property
    def cand(self) -> Levers:
        """Secondary measurements of the candidate over the compared cells."""
        return levers([pair.cand for pair in self.pairs])

    @property
    def unmeasurable(self) -> tuple[Excluded, ...]:
        """Open cells that infrastructure failed."""
        return tuple(_listed(cell) for cell in self.open if cell.reason not in (MISSING, NOT_NEEDED))

    @property
    def absent(self) -> tuple[Excluded, ...]:
        """Open cells that were never measured: missing, not_needed."""
        return tuple(_listed(cell) for cell in self.open if cell.reason in (MISSING, NOT_NEEDED))

    @property
    def p_value(self) -> float:
        """Exact one-sided McNemar over the compared cells."""
        return mcnemar(len(self.gained), len(self.lost))

    @property
    def detectable(self) -> int:
        """Fewest clean gains that would reach p <= 0.05 here; 0 when there is no room for so many."""
        return detectable(sum(not pair.base.solved for pair in self.pairs))

    @property
    def proven_unchanged(self) -> int:
        """Compared cells where the change had no effect at all; 0 for an endpoint that does not repeat itself."""
        return sum(pair.unchanged for pair in self.pairs) if self.deterministic else 0

    @property
    def inputs(self) -> str:
        """Digest of everything a criterion judges from.  Free of clocks and of cache heat."""
        return digest(
            {
                "deterministic": self.deterministic,
                "pairs": sorted([p.task, p.seed, _judged(p.base), _judged(p.cand)] for p in self.pairs),
                "open": sorted([c.task, c.seed, c.base_solved, c.cand_solved, c.reason] for c in self.open),
                "excluded": sorted([one.task, one.seed, one.reason] for one in self.excluded),
                "certificates": self.certificates,
                "certified": self.certified,
                **({"attributions": self._attributed()} if self._attributed() else {}),
            }
        )

    def _attributed(self) -> list[list[object]]:
        return sorted([one.task, one.seed, one.verdict] for one in self.attributions if one.verdict)

    def _flip(self, pair: Pair) -> Flip:
        known = next((one for one in self.attributions if (one.task, one.seed) == (pair.task, pair.seed)), None)
        return Flip(
            task=pair.task,
            seed=pair.seed,
            gained=pair.cand.solved and not pair.base.solved,
            base_outcome=mode(pair.base),
            cand_outcome=mode(pair.cand),
            attribution=known.verdict if known else None,
            evidence=known.evidence if known else "",
        )


def mode(rollout: Rollout) -> str:
    """How a rollout ended, in one word: the outcome, with the reason of a missing submission."""
    if rollout.outcome is Outcome.NO_SUBMIT and rollout.reason:
        return f"{rollout.outcome.value}:{rollout.reason}"
    return rollout.outcome.value


def levers(rollouts: Sequence[Rollout]) -> Levers:
    """Sums over rollouts."""
    return Levers(
        solved=sum(r.solved for r in rollouts),
        cells=len(rollouts),
        llm_calls=sum(r.llm_calls for r in rollouts),
        actions=sum(r.actions for r in rollouts),
        usage=sum((r.usage for r in rollouts), Usage()),
        recorded_time=round(sum(r.recorded_time for r in rollouts), 6),
        first_try_valid=sum(r.first_try_valid for r in rollouts),
        first_try_total=sum(r.first_try_total for r in rollouts),
    )


def _listed(cell: OpenCell) -> Excluded:
    return Excluded(task=cell.task, seed=cell.seed, reason=cell.reason, detail=cell.detail)


def _word(solved: bool) -> str:
    return "solved" if solved else "unsolved"


def _judged(rollout: Rollout) -> list[object]:
    return [rollout.measurement, rollout.first_try_valid, rollout.first_try_total, rollout.usage.total]
