"""Where two runs part, cell by cell, for `ht diff`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harnesstrain.cli.output import clean
from harnesstrain.cli.revisions import Range
from harnesstrain.cli.siding import cell_lines
from harnesstrain.cli.styled import Line, Piece, line
from harnesstrain.cli.tables import columns, explanation
from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout, Step, StepKind, Trace, latest_attempts
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.verdict import Flip
from harnesstrain.judge.attribution import Attribution
from harnesstrain.judge.divergence import Divergence, first_divergence
from harnesstrain.stages.judging.derive import explained, repeat_themselves
from harnesstrain.stages.report.flipdiffs import cell_diff
from harnesstrain.stages.report.steplines import step_line

if TYPE_CHECKING:
    from harnesstrain.store import Store


class Parting(Record):
    """One cell whose two rollouts differ."""

    task: str
    seed: int
    base_outcome: str
    cand_outcome: str
    flip: str = ""
    """gained, lost, or empty."""
    attribution: str | None = None
    """Of a flip: attributed, collateral, or None when not traced."""
    evidence: str = ""
    """What the attribution rests on."""
    divergence: Divergence
    base_text: str
    """What the baseline's step said or did; of a request, from the first message that differs on."""
    cand_text: str
    shared: int = 0
    """Messages that both requests start with, and that the texts leave out."""


class Partings(Record):
    """Two runs, compared step by step."""

    tasks: tuple[Parting, ...]
    same: tuple[str, ...]
    """Cells that did the same and ended the same."""
    regime: dict[str, tuple[Any, Any]]
    """Fields of the regime that differ."""
    proven: bool = True
    """Whether "the same" proves that the change had no effect there: one regime, model and harnesses that repeat
    themselves."""
    not_needed: int = 0
    """Cells that an early decision left unmeasured."""
    missing: int = 0
    """Cells that were not measured on both sides."""


def partings(store: Store, pair: Range, task: str | None) -> Partings:
    """Compare the rollouts of two runs.  Raises NotFound when `task` is in neither."""
    base, cand = store.run(pair.base), store.run(pair.cand)
    left = {(r.task, r.seed): r for r in latest_attempts(store.rollouts(base.id))}
    right = {(r.task, r.seed): r for r in latest_attempts(store.rollouts(cand.id))}
    place = {one.name: index for index, one in enumerate(store.panel(base.panel).tasks)}
    shared = [cell for cell in left if cell in right and task in (None, cell[0])]
    shared.sort(key=lambda cell: (place.get(cell[0], len(place)), cell))
    absent = len(place) * len(base.seeds) - len(shared) if task is None and place else 0
    if task is not None and not shared:
        msg = f"no rollout of '{task}' on both sides"
        raise NotFound(msg, hint="`ht tasks list` shows the tasks")
    repeats = repeat_themselves(store, base, cand)
    found: list[Parting] = []
    same: list[str] = []
    for cell in shared:
        parting = _parting(store, base, left[cell], right[cell], repeats=repeats)
        if parting is None:
            same.append(f"{cell[0]} s{cell[1]}")
        else:
            found.append(parting)
    regime = differing(store, base.regime, cand.regime)
    return Partings(
        tasks=tuple(found),
        same=tuple(same),
        regime=regime,
        proven=not regime and repeats,
        not_needed=absent if cand.early_stop_against == base.id else 0,
        missing=0 if cand.early_stop_against == base.id else absent,
    )


def differing(store: Store, base: str, cand: str) -> dict[str, tuple[Any, Any]]:
    """The fields in which two regimes differ, with both values."""
    return store.regime(base).differing(store.regime(cand))


def render(found: Partings) -> list[str]:
    """Lines for people: a table of all cells."""
    lines = regime_lines(found.regime)
    rows = [(f"{p.task} s{p.seed}", _outcomes(p), _where(p), _flip(p)) for p in found.tasks]
    rows += [(name, _unchanged(found), "", "") for name in found.same]
    lines += columns(rows)
    if found.not_needed:
        lines.append(f"{found.not_needed} not needed: the verdict was decided without")
    if found.missing:
        lines.append(f"{found.missing} not measured on both sides")
    if found.tasks:
        lines.append(f"--task {shlex.quote(found.tasks[0].task)} shows both sides of its step")
    return lines


def render_task(store: Store, pair: Range, found: Partings, *, full: bool, width: int | None) -> list[Line]:
    """Lines for people: both sides of each cell of one task.  `full`: nothing is folded.

    `width`: columns of the terminal; None: it is none.
    """
    lines = [line(text) for text in regime_lines(found.regime)]
    for parting in found.tasks:
        lines.append(line((f"{parting.task} s{parting.seed}: {_outcomes(parting)}; {_where(parting)}", "bold")))
        lines += [line(f"  {_flip(parting)}")] if parting.flip else []
        cells = [_cell(store, run, parting) for run in (pair.base, pair.cand)]
        flip = Flip(
            task=parting.task,
            seed=parting.seed,
            gained=parting.flip == "gained",
            base_outcome=parting.base_outcome,
            cand_outcome=parting.cand_outcome,
            attribution=parting.attribution,
            evidence=parting.evidence,
        )
        told = cell_diff(store, flip, *cells)
        if not full:
            lines += [*cell_lines(told, width), []]
            continue
        exchanges = [step for step in store.trace(cells[1].id).steps if step.kind is not StepKind.NOTE]
        lines += cell_lines(told, width, prefix=[step_line(step) for step in exchanges[: told.shared]])
        lines += [[], *(line(text) for text in _whole(parting)), []]
    return lines + [line(f"{name}: {_unchanged(found)}") for name in found.same]


def _cell(store: Store, run: str, parting: Parting) -> Rollout:
    """The newest rollout of the cell in a run."""
    cell = (parting.task, parting.seed)
    return next(one for one in latest_attempts(store.rollouts(run)) if (one.task, one.seed) == cell)


def regime_lines(regime: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """The fields of a regime that differ, one a line."""
    return [f"regime: {key}: {one!r} → {other!r}" for key, (one, other) in regime.items()]


def patch_lines(text: str) -> list[Line]:
    """A patch, coloured; as it is without colour."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    heads = ("+++", "---", "diff ", "index ")
    return [
        [Piece(clean(one), "bold" if one.startswith(heads) else colours.get(one[:1], ""))] for one in text.split("\n")
    ]


def _unchanged(found: Partings) -> str:
    return "proven unchanged" if found.proven else "the same"


def _outcomes(parting: Parting) -> str:
    same = parting.base_outcome == parting.cand_outcome
    return parting.base_outcome if same else f"{parting.base_outcome} → {parting.cand_outcome}"


def _where(parting: Parting) -> str:
    return f"diverged at step {parting.divergence.step} ({parting.divergence.kind})"


def _flip(parting: Parting) -> str:
    return f"{parting.flip}, {explanation(parting.attribution, parting.evidence)}" if parting.flip else ""


def _whole(parting: Parting) -> list[str]:
    """Both sides of the step, whole."""
    lines = []
    for sign, text in (("-", parting.base_text), ("+", parting.cand_text)):
        lines += [f"  {sign} {one}" for one in text.splitlines() or ["(ended)"]]
    return lines


def _parting(store: Store, run: Run, base: Rollout, cand: Rollout, *, repeats: bool) -> Parting | None:
    before, after = store.trace(base.id), store.trace(cand.id)
    divergence = first_divergence(base, before.steps, cand, after.steps)
    if divergence is None:
        return None
    flip = "" if base.solved == cand.solved else "gained" if cand.solved else "lost"
    found = explained(store, run.commit, base, cand, repeats=repeats, known={}) if flip else None
    why = found or Attribution(task=base.task, seed=base.seed, verdict=None)
    shared = divergence.message or 0
    return Parting(
        task=base.task,
        seed=base.seed,
        base_outcome=_outcome(base),
        cand_outcome=_outcome(cand),
        flip=flip,
        attribution=why.verdict,
        evidence=why.evidence,
        divergence=divergence,
        base_text=_text(divergence.base, before, divergence),
        cand_text=_text(divergence.cand, after, divergence),
        shared=shared,
    )


def _outcome(rollout: Rollout) -> str:
    return rollout.outcome.value + (f" ({rollout.reason})" if rollout.reason else "")


def _text(step: Step | None, trace: Trace, divergence: Divergence) -> str:
    if step is None:
        return ""
    if step.kind is StepKind.LLM:
        if divergence.kind == "request":
            said = [trace.messages[key] for key in step.messages[divergence.message or 0 :]]
        else:
            said = [trace.messages[key] for key in step.messages[-1:]]
        lines = [f"{m.get('role')}: {m.get('content')}" for m in said if isinstance(m, dict)]
        return "\n".join([*lines, f"assistant: {step.content or ''}" if step.error is None else f"error: {step.error}"])
    if step.kind is StepKind.SUBMIT:
        return "submit"
    out = (step.stdout or b"").decode("utf-8", "replace") + (step.stderr or b"").decode("utf-8", "replace")
    return f"{step.action}\n" + (f"exit {step.exit_code}\n{out}" if step.exit_code is not None else f"{step.error}")
