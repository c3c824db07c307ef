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
    endpoint: opt.Endpoints = None,
    fresh: Annotated[str, typer.Option("--fresh", metavar="SALT", help="Measure again as another run.")] = "",
    early_stop: Annotated[
        bool,
        typer.Option("--early-stop/--exhaustive", help="BASE..CAND: stop where the verdict is decided, or never."),
    ] = False,
    criterion: Annotated[
        str | None, typer.Option("--criterion", "-c", help="Whose verdict --early-stop means.")
    ] = None,
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

    The same command is the same run: rerunning resumes, and a complete run is a no-op.  With --endpoint, each model has
    runs of its own.
    """
    from harnesstrain.cli import output, revisions
    from harnesstrain.cli.endpoints import models_of, on_each
    from harnesstrain.cli.measuring import Asked, check, check_infra, left_out, line_of, versions_of
    from harnesstrain.cli.session import opened
    from harnesstrain.core.registry import load as plugin
    from harnesstrain.measure.context import Context
    from harnesstrain.stages import evaluate
    from harnesstrain.stages.evaluate import Estimate, Evaluated

    flags = {
        "measure.cache": "off" if no_cache else cache,
        "sandbox.allow_unisolated": unisolated or None,
    }
    with opened(config=config, given=given, flags=flags, progress=progress, drains=True, dry_run=dry_run) as context:
        if early_stop or criterion:
            plugin("criteria", criterion or context.settings.loop.criterion)
        models = models_of(context, endpoint or [])
        names = revisions.arguments(revs or ["@"])
        versions = [one for name in names for one in versions_of(context, name, early_stop=early_stop)]
        spec = evaluate.EvaluateSpec(
            commit="",
            panel=panel,
            split=split,
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
            seeds=seeds,
            fresh=fresh,
            retry_infra=retry_infra,
            jobs=jobs,
            max_tokens=max_tokens,
            criterion=criterion,
        )
        if "@" in names and (changed := left_out(context)):
            what = output.counted(len(changed), "uncommitted file")
            output.say(f"note: {what} {'is' if len(changed) == 1 else 'are'} not measured: {', '.join(changed[:3])}")
        results: list[Evaluated | Estimate] = []

        def measure(on: Context, name: str | None) -> None:
            for version in versions:
                against = results[-1].run if version.against_last else None
                this = spec.model_copy(update={"commit": version.commit, "against": against, "endpoint": name})
                results.append(evaluate.dry_run(on, this) if dry_run else evaluate.run(on, this))
                if not json:
                    output.data(line_of(results[-1]))
                check(results[-1])

        try:
            if versions:
                on_each(context, models, measure)
        finally:
            if json and (results or not versions):
                output.emit_one_or_list("estimate" if dry_run else "run", results)
        asked = Asked(
            panel=panel,
            include=spec.include,
            exclude=spec.exclude,
            given=tuple(given or ()),
            config=config,
            unisolated=unisolated,
        )
        check_infra(context, results, asked)
