"""From names to runs and verdicts: which measurement of a version a command means."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from harnesstrain.cli.choosing import configured_panel, of_one_model, of_one_panel, on_endpoint, unmeasured
from harnesstrain.cli.revisions import Range, baseline, commit_of, measured_here, range_of
from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.core.ids import SHORTEST, is_hex
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.verdict import Verdict

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context


def run_of(context: Context, name: str, *, complete: bool = False, endpoint: str | None = None) -> str:
    """A run id, or the newest run of a version; with `complete` the newest complete one, where there is one.

    `endpoint`: of the runs on that model; without it, those on the configured one come first.  With `complete`, so do
    those on the configured panel and split.  Raises NotFound, Ambiguous.
    """
    named = _named(context, name, ("run",))
    if named is not None:
        return measured_here(context.store.run(named)).id
    commit = commit_of(context, name)
    found = on_endpoint(context, _runs_of_commit(context, commit), endpoint)
    if not found:
        on = f" --endpoint {shlex.quote(endpoint)}" if endpoint else ""
        msg = f"{commit[:8]} was not measured yet{f' on {endpoint}' if endpoint else ''}"
        raise NotFound(msg, hint=f"`ht evaluate {name}{on}`")
    ids = ", ".join(one.id[:8] for one in found[-2:])
    if endpoint is None:
        found = of_one_model(context, found, lambda one: one, commit[:8], hint=f"name the run: {ids}")
    if complete:
        found = of_one_panel(context, found, lambda one: one)
    whole = [one for one in found if context.store.is_complete(one.id)] if complete else []
    return (whole or found)[-1].id


def commit_named(context: Context, name: str) -> str:
    """The commit of a run id or of a version, measured or not.  Raises NotFound, Ambiguous."""
    named = _named(context, name, ("run",))
    return context.store.run(named).commit if named is not None else commit_of(context, name)


def runs_of(context: Context, text: str, endpoint: str | None = None) -> Range:
    """`base..cand` as two comparable runs: the newest complete pair of one panel, split, regime and seeds.

    Those on the configured panel and split come first.  Where one side was begun only, the newest pair there is.  Each
    side may be a run id.  `endpoint`: only runs on that model; without it, those on the configured one come first.
    Raises NotFound when no such pair was measured, Ambiguous where only other models have one, and several do.
    """
    left, _, right = text.partition("..")
    sides = [_named(context, side, ("run",)) if side else None for side in (left, right)]
    if sides[0] and sides[1]:
        both = [context.store.run(sides[0]), context.store.run(sides[1])]
        if len(on_endpoint(context, both, endpoint)) < len(both):
            raise unmeasured(context, f"'{text}' was not measured", both, endpoint, text)
        return Range(base=sides[0], cand=sides[1])
    if sides[0] or sides[1]:
        fixed = measured_here(context.store.run(sides[0] or sides[1] or ""))
        other = commit_of(context, right if sides[0] else left) if (right if sides[0] else left) else baseline(context)
        others = on_endpoint(context, _runs_of_commit(context, other), endpoint)
        found = _newest_pair(context, [fixed], others) if sides[0] else _newest_pair(context, others, [fixed])
        if found is None:
            raise _missing(context, other, fixed)
        return found
    pair = range_of(context, text)
    bases, cands = (_runs_of_commit(context, one) for one in (pair.base, pair.cand))
    found = _newest_pair(context, *(on_endpoint(context, runs, endpoint) for runs in (bases, cands)))
    if found is not None:
        return found
    msg = f"{pair.base[:8]} and {pair.cand[:8]} were not measured alike"
    raise unmeasured(context, msg, [*bases, *cands], endpoint, f"{pair.base[:8]}..{pair.cand[:8]}")


def different(context: Context, text: str, endpoint: str | None = None) -> Range:
    """`runs_of`, of two versions.  Raises UsageError for a version against itself, unless two runs of it are named."""
    pair = runs_of(context, text, endpoint)
    left, right = (context.store.run(one) for one in (pair.base, pair.cand))
    named = all(_named(context, side, ("run",)) for side in text.split("..", 1))
    if left.id == right.id or (left.commit == right.commit and not named):
        what = f"run {left.id[:8]}" if named else left.commit[:8]
        hint = "name two versions, as BASE..CAND, or two runs of one version, as RUN..RUN"
        raise UsageError(f"{what} would be compared with itself", hint=hint)
    return pair


def regimes_of(context: Context, text: str) -> Range | None:
    """`base..cand` as two regimes, when both sides are ids of regimes; else None.  Raises Ambiguous."""
    left, _, right = text.partition("..")
    base, cand = (_named(context, side, ("regime",)) if side else None for side in (left, right))
    return Range(base=base, cand=cand) if base and cand else None


def verdict_of(context: Context, name: str, criterion: str | None, *, record: bool) -> Verdict:
    """A verdict by id, or of a candidate, run or version against the baseline: recorded, or judged now.

    A candidate or version is decided by its runs on the configured panel and split; a run may be of any.  Raises
    NotFound, Ambiguous, UsageError (it is the baseline).
    """
    from harnesstrain.stages import judging

    named = _named(context, name, ("verdict",))
    if named is not None:
        verdict = context.store.verdict(named)
        measured_here(context.store.run(verdict.cand_run))
        return verdict
    base = baseline(context)
    run = _named(context, name, ("run",))
    cand = measured_here(context.store.run(run)).commit if run else commit_of(context, name)
    if criterion is None:
        known = [v for v in context.store.verdicts() if v.cand_commit == cand and run in (None, v.cand_run)]
        known = of_one_model(
            context, known, lambda one: context.store.run(one.cand_run), cand[:8], hint="name the verdict or the run"
        )
        known = of_one_panel(context, known, lambda one: context.store.run(one.cand_run))
        if known and (known[-1].base_commit == base or cand == base):
            if run is None:
                _decides(context, context.store.run(known[-1].cand_run), name)
            return known[-1]
    if cand == base:
        msg = f"{cand[:8]} is the baseline already: there is nothing to promote"
        raise UsageError(msg, hint="`ht propose` makes a candidate; `ht log` lists those that there are")
    pair = runs_of(context, f"{base}..{run or cand}")
    if run is None:
        _decides(context, context.store.run(pair.cand), name)
    spec = judging.JudgeSpec(base_run=pair.base, cand_run=pair.cand, criterion=criterion, record=record)
    return judging.run(context, spec)


def _decides(context: Context, run: Run, name: str) -> None:
    """Raises NotFound where a version was measured elsewhere than on the configured panel and split only."""
    panel = configured_panel(context)
    if panel in ("", run.panel):
        return
    chosen = context.settings.panel
    part = "other tasks of " if (run.split or "all") == chosen.split else ""
    msg = f"{run.commit[:8]} was measured on {part}{run.place}, not on the configured panel and split ({chosen.split})"
    hint = f"`ht evaluate {shlex.quote(name)}` measures it there; `ht promote {run.id[:8]}` decides by that run"
    raise NotFound(msg, hint=hint)


def _named(context: Context, name: str, kinds: tuple[str, ...]) -> str | None:
    """The record of one of `kinds` that `name` is an id of, or None."""
    text = name.removeprefix("id:")
    if len(text) < SHORTEST or not is_hex(text):
        return None
    try:
        return context.store.resolve(text, kinds=kinds).id
    except NotFound:
        return None


def _runs_of_commit(context: Context, commit: str) -> list[Run]:
    return [run for run in context.store.runs() if run.commit == commit]


def _newest_pair(context: Context, bases: list[Run], cands: list[Run]) -> Range | None:
    """The newest comparable runs, complete ones before any others.  The candidate's age counts first.

    A candidate that was stopped early goes with the baseline's run against which it was.
    """
    newest = bases[::-1]
    pairs = [
        (base, cand)
        for cand in reversed(cands)
        for base in sorted(newest, key=lambda one: one.id != cand.early_stop_against)
        if _alike(base) == _alike(cand)
    ]
    if pairs:
        what = f"{pairs[0][0].commit[:8]}..{pairs[0][1].commit[:8]}"
        pairs = of_one_model(context, pairs, lambda pair: pair[0] if pair[0].configured else pair[1], what)
        pairs = of_one_panel(context, pairs, lambda pair: pair[1])
    whole = {run.id: context.store.is_complete(run.id) for pair in pairs for run in pair}
    chosen = next((pair for pair in pairs if all(whole[run.id] for run in pair)), pairs[0] if pairs else None)
    return Range(base=chosen[0].id, cand=chosen[1].id) if chosen else None


def _alike(run: Run) -> tuple[object, ...]:
    """What two comparable runs have in common."""
    return (run.panel, run.split, run.regime, run.seeds)


def _missing(context: Context, commit: str, fixed: Run) -> NotFound:
    from harnesstrain.measure.resuming import resume

    msg = f"{commit[:8]} was not measured on {fixed.panel_name} as run {fixed.id[:8]} was ({fixed.place})"
    wanted = fixed.model_copy(update={"commit": commit, "salt": ""})
    return NotFound(msg, hint=f"`{resume(context, wanted)}`")
