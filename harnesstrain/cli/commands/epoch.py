"""`ht epoch`: the loop."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    n: Annotated[int, typer.Option("--n", min=1, help="Epochs.")] = 1,
    max_time: Annotated[str | None, typer.Option("--max-time", help="Stop after e.g. 90s, 30m, 2h.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Stop after this many tokens.")] = None,
    estimator: Annotated[str | None, typer.Option("--estimator", "-e", help="Name or module:Class.")] = None,
    criterion: Annotated[str | None, typer.Option("--criterion", "-c", help="Name or module:Class.")] = None,
    panel: opt.Panel = None,
    split: opt.Split = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Measure also what cannot change the verdict.")
    ] = False,
    jobs: opt.Jobs = None,
    unisolated: opt.Unisolated = False,
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    given: opt.Set = None,
    progress: opt.Progress = "auto",
    json: opt.Json = False,
) -> None:
    """Certify, propose, evaluate, judge, promote or reject, diagnose: N times.  Prints verdict ids.

    An interrupted epoch goes on where it was.  Exits 5 when stopped early, 4 after failed proposals in a row.
    """
    from harnesstrain.cli import output
    from harnesstrain.cli.durations import seconds
    from harnesstrain.cli.revisions import baseline
    from harnesstrain.cli.session import opened
    from harnesstrain.cli.tables import verdict_object
    from harnesstrain.core.registry import load as plugin
    from harnesstrain.stages import evaluate
    from harnesstrain.trainer.limits import Limits
    from harnesstrain.trainer.optimizer import Optimizer
    from harnesstrain.trainer.trainer import Trainer

    flags = {
        "loop.estimator": estimator,
        "loop.criterion": criterion,
        "panel.name": panel if panel and "/" not in panel else None,
        "panel.path": panel if panel and "/" in panel else None,
        "panel.split": split,
        "loop.early_stop": False if exhaustive else None,
        "measure.jobs": jobs,
        "sandbox.allow_unisolated": unisolated or None,
    }
    with opened(config=config, given=given, flags=flags, progress=progress, drains=True, dry_run=dry_run) as context:
        loop = context.settings.loop
        for group, name in (
            ("criteria", loop.criterion),
            ("estimators", loop.estimator),
            ("optimizers", loop.optimizer),
        ):
            plugin(group, name)
        longest = seconds(max_time) if max_time else None
        evaluate.dry_run(context, evaluate.EvaluateSpec(commit=baseline(context)))  # before an epoch is begun
        if dry_run:
            text = f"would run {output.counted(n, 'epoch')} with estimator {loop.estimator}, criterion {loop.criterion}"
            output.emit("plan", {"text": text, "epochs": n}) if json else output.data(text)
            return
        optimizer = Optimizer(plugin("optimizers", context.settings.loop.optimizer)())
        trainer = Trainer(context, optimizer=optimizer)
        limits = Limits(context.stop, max_time=longest, max_tokens=max_tokens)
        verdicts = []
        try:
            for loss in trainer.epochs(n, limits):
                loss.backward()
                optimizer.step()
                verdicts.append(verdict_object(loss.verdict))
                if not json:
                    output.data(loss.verdict.id)
        finally:
            if json:
                output.emit_list("epochs", verdicts)
