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
    from harnesstrain.stages import promote

    refused = []
    with opened(config=config, given=given) as context:
        promote.repair(context)
        for name in revisions.arguments(names):
            verdict = runs.verdict_of(context, name, criterion, record=not dry_run)
            done = promote.run(context, promote.PromoteSpec(verdict=verdict, dry_run=dry_run))
            if json:
                target = {"target": verdict.cand_commit, "applied": done.applied, "dry_run": dry_run}
                output.emit("promotion", {**target, "detail": done.reason, "commit": done.commit})
            else:
                output.data(done.commit if done.applied else ("would promote" if dry_run else "rejected"))
            if done.reason:
                output.say(done.reason)
            if not done.applied and not dry_run:
                refused.append(done.reason)
    if refused and exit_code:
        raise AnswerNo(refused[0])
