"""Where two runs part, task by task, for `ht diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harnesstrain.cli.revisions import Range
from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout, Step, StepKind, Trace, latest_attempts
from harnesstrain.judge.divergence import Divergence, first_divergence

if TYPE_CHECKING:
    from harnesstrain.store import Store


class Parting(Record):
    """One cell whose two rollouts differ."""

    task: str
    seed: int
    base_outcome: str
    cand_outcome: str
    divergence: Divergence
    base_text: str
    """What the baseline's step said or did."""
    cand_text: str


class Partings(Record):
    """Two runs, compared step by step."""

    tasks: tuple[Parting, ...]
    same: tuple[str, ...]
    """Cells that did the same and ended the same."""
    regime: dict[str, tuple[Any, Any]]
    """Fields of the regime that differ."""


def partings(store: Store, pair: Range, task: str | None) -> Partings:
    """Compare the rollouts of two runs.  Raises NotFound when `task` is in neither."""
    base, cand = store.run(pair.base), store.run(pair.cand)
    left = {(r.task, r.seed): r for r in latest_attempts(store.rollouts(base.id))}
    right = {(r.task, r.seed): r for r in latest_attempts(store.rollouts(cand.id))}
    place = {one.name: index for index, one in enumerate(store.panel(base.panel).tasks)}
    shared = [cell for cell in left if cell in right and task in (None, cell[0])]
    shared.sort(key=lambda cell: (place.get(cell[0], len(place)), cell))
    if task is not None and not shared:
        msg = f"no rollout of '{task}' on both sides"
        raise NotFound(msg, hint="`ht tasks list` shows the tasks")
    found: list[Parting] = []
    same: list[str] = []
    for cell in shared:
        parting = _parting(store, left[cell], right[cell])
        if parting is None:
            same.append(f"{cell[0]} s{cell[1]}")
        else:
            found.append(parting)
    one, other = (flat(store.regime(run.regime).model_dump(mode="json")) for run in (base, cand))
    regime = {key: (one.get(key), other.get(key)) for key in sorted({*one, *other}) if one.get(key) != other.get(key)}
    return Partings(tasks=tuple(found), same=tuple(same), regime=regime)


def render(found: Partings, *, full: bool) -> list[str]:
    """Lines for people."""
    lines = [f"regime: {key}: {one!r} → {other!r}" for key, (one, other) in found.regime.items()]
    for parting in found.tasks:
        change = f"{parting.base_outcome} → {parting.cand_outcome}"
        where = f"after {parting.divergence.step} shared exchanges, {parting.divergence.kind}"
        lines.append(f"{parting.task} s{parting.seed}: {change}; {where}")
        for sign, text in (("-", parting.base_text), ("+", parting.cand_text)):
            shown = text.splitlines() or ["(ended)"]
            kept = shown if full else shown[:3]
            lines += [f"  {sign} {line}" for line in kept]
            if len(shown) > len(kept):
                lines.append(f"  {sign} … {len(shown) - len(kept)} lines more; --task {parting.task} shows all")
    if found.same:
        lines.append(f"the same: {len(found.same)} ({', '.join(found.same)})")
    return lines


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested maps as dotted keys."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {k: v for name, item in value.items() for k, v in flat(item, f"{prefix}.{name}" if prefix else name).items()}


def _parting(store: Store, base: Rollout, cand: Rollout) -> Parting | None:
    before, after = store.trace(base.id), store.trace(cand.id)
    divergence = first_divergence(base, before.steps, cand, after.steps)
    if divergence is None:
        return None
    shared = _shared_messages(divergence)
    return Parting(
        task=base.task,
        seed=base.seed,
        base_outcome=_outcome(base),
        cand_outcome=_outcome(cand),
        divergence=divergence,
        base_text=_text(divergence.base, before, shared),
        cand_text=_text(divergence.cand, after, shared),
    )


def _outcome(rollout: Rollout) -> str:
    return rollout.outcome.value + (f" ({rollout.reason})" if rollout.reason else "")


def _shared_messages(divergence: Divergence) -> int:
    one = divergence.base.messages if divergence.base else ()
    other = divergence.cand.messages if divergence.cand else ()
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _text(step: Step | None, trace: Trace, shared: int) -> str:
    if step is None:
        return ""
    if step.kind is StepKind.LLM:
        messages = [trace.messages[key] for key in step.messages[shared:]]
        said = [f"{m.get('role')}: {m.get('content')}" for m in messages if isinstance(m, dict)]
        return "\n".join([*said, f"assistant: {step.content or ''}"])
    if step.kind is StepKind.SUBMIT:
        return "submit"
    out = (step.stdout or b"").decode("utf-8", "replace") + (step.stderr or b"").decode("utf-8", "replace")
    return f"{step.action}\nexit {step.exit_code}\n{out}"
