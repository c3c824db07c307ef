"""`ht evaluate`: measure a harness version over a panel."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    revs: Annotated[
        list[str] | None, typer.Argument(metavar="[REV|BASE..CAND|-]...", help="What to measure; default: @.")
    ] = None,
    panel: opt.Panel = None,
    split: opt.Split = None,
    include: Annotated[list[str] | None, typer.Option("--include", help="Glob of task names.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="Glob of task names to leave out.")] = None,
    seeds: opt.Seeds = 1,
    jobs: opt.Jobs = None,
    fresh: Annotated[str, typer.Option("--fresh", metavar="SALT", help="Measure again as another run.")] = "",
    retry_infra: Annotated[
        bool, typer.Option("--retry-infra", help="One attempt more for cells the infrastructure failed.")
    ] = False,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Stop after this many tokens.")] = None,
    cache: opt.Cache = None,
    no_cache: opt.NoCache = False,
    unisolated: opt.Unisolated = False,
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    given: opt.Set = None,
    progress: opt.Progress = "auto",
    json: opt.Json = False,
) -> None:
    """Measure harness versions over a panel.  Prints run ids.

    The same command is the same run: rerunning resumes, and a complete run is a no-op.
    """
    from harnesstrain.cli import output, revisions
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import Incomplete, Unmeasurable
    from harnesstrain.stages import evaluate

    flags = {
        "measure.cache": "off" if no_cache else cache,
        "sandbox.allow_unisolated": unisolated or None,
    }
    with opened(config=config, given=given, flags=flags, progress=progress, drains=True) as context:
        names: list[str] = []
        for name in revisions.arguments(revs or ["@"]):
            names += revisions.sides(name)
        results = []
        for name in names:
            spec = evaluate.EvaluateSpec(
                commit=revisions.commit_of(context, name),
                panel=panel,
                split=split,
                include=tuple(include or ()),
                exclude=tuple(exclude or ()),
                seeds=seeds,
                fresh=fresh,
                retry_infra=retry_infra,
                jobs=jobs,
                max_tokens=max_tokens,
            )
            if dry_run:
                estimate = evaluate.dry_run(context, spec)
                output.emit("estimate", estimate) if json else output.data(_sentence(estimate))
                continue
            done = evaluate.run(context, spec)
            results.append(done)
            output.emit("run", {**done.model_dump(mode="json"), "complete": done.complete}) if json else output.data(
                done.run
            )
            if not done.complete:
                msg = f"{done.cells - done.done} of {done.cells} cells are missing"
                raise Incomplete(msg, hint="the same command resumes", run=done.run)
        lost = sum(done.infra for done in results)
        if lost:
            msg = f"{lost} cells ended in infrastructure failures"
            raise Unmeasurable(msg, hint="`ht evaluate --retry-infra` tries them again; `ht show RUN` names them")


def _sentence(estimate: object) -> str:
    from harnesstrain.stages.evaluate import Estimate

    assert isinstance(estimate, Estimate)
    cost = ""
    if estimate.tokens is not None:
        cost = f", about {estimate.tokens} tokens and {estimate.seconds:g} s"
    return f"run {estimate.run[:8]}: {estimate.cells} cells, {estimate.done} done, {estimate.to_run} to run{cost}"
