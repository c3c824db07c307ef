"""`ht promote`: act on a verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    names: Annotated[list[str], typer.Argument(metavar="CAND|VERDICT|RUN|-...", help="What to act on.")],
    criterion: Annotated[str | None, typer.Option("--criterion", "-c", help="When it has to be judged first.")] = None,
    dry_run: opt.DryRun = False,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    given: opt.Set = None,
    json: opt.Json = False,
) -> None:
    """Fast-forward the harness branch to a selected candidate.  Prints the new baseline commit, or "rejected".

    A candidate or run without a verdict is judged against the baseline first.
    """
    from harnesstrain.cli import output, revisions, runs
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import AnswerNo
    from harnesstrain.core.registry import load as plugin
    from harnesstrain.stages import promote

    results: list[dict[str, object]] = []
    refused = []
    with opened(config=config, given=given, dry_run=dry_run) as context:
        if criterion is not None:
            plugin("criteria", criterion)
        if not dry_run:
            promote.repair(context)
        try:
            for name in revisions.arguments(names):
                verdict = runs.verdict_of(context, name, criterion, record=not dry_run)
                judged = context.store.run(verdict.cand_run)
                if not judged.configured:
                    on = f"is of runs on {judged.asked_as[0]}, not on the configured model"
                    output.say(f"note: verdict {verdict.id[:8]} {on}")
                done = promote.run(context, promote.PromoteSpec(verdict=verdict, dry_run=dry_run))
                target = {"target": verdict.cand_commit, "applied": done.applied, "dry_run": dry_run}
                results.append({**target, "verdict": verdict.id, "detail": done.reason, "commit": done.commit})
                if not json:
                    output.data(done.commit if done.applied else "rejected" if not done.planned else "would promote")
                if done.reason:
                    output.say(done.reason)
                if not done.applied and not done.planned:
                    refused.append(done.reason)
        finally:
            if json and results:
                output.emit_one_or_list("promotion", results)
    if json and not results:
        output.emit_list("promotions", [])
    if refused and exit_code:
        raise AnswerNo(refused[0])
