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
    from harnesstrain.cli.measuring import check, check_infra, line_of
    from harnesstrain.cli.session import opened
    from harnesstrain.stages import evaluate
    from harnesstrain.stages.evaluate import Estimate, Evaluated

    flags = {
        "measure.cache": "off" if no_cache else cache,
        "sandbox.allow_unisolated": unisolated or None,
    }
    with opened(config=config, given=given, flags=flags, progress=progress, drains=True, dry_run=dry_run) as context:
        names = revisions.arguments(revs or ["@"])
        specs = [
            evaluate.EvaluateSpec(
                commit=commit,
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
            for name in names
            for commit in revisions.commits_of(context, name)
        ]
        if "@" in names and (changed := context.repo.dirty()):
            output.say(f"note: {len(changed)} uncommitted files are not measured: {', '.join(changed[:3])}")
        results: list[Evaluated | Estimate] = []
        try:
            for spec in specs:
                results.append(evaluate.dry_run(context, spec) if dry_run else evaluate.run(context, spec))
                if not json:
                    output.data(line_of(results[-1]))
                check(results[-1])
        finally:
            if json and (results or not specs):
                output.emit_one_or_list("estimate" if dry_run else "run", results)
        check_infra(results)
