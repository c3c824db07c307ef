"""`ht diff`: where two versions part."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    compared: Annotated[str, typer.Argument(metavar="A..B", help="Versions, runs or regimes.")],
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only this task, with both sides in full.")] = None,
    patch: Annotated[bool, typer.Option("--patch", help="The harness diff instead.")] = False,
    exit_code: opt.ExitCode = False,
    endpoint: opt.Endpoint = None,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """The first step where each task's rollouts part, what explains it, and the regime's fields that differ."""
    from harnesstrain.cli import output, revisions, runs
    from harnesstrain.cli.parting import differing, partings, regime_lines, render
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import AnswerNo, UsageError

    if patch and task is not None:
        msg = "--patch is of the whole harness, and --task of one task's steps"
        raise UsageError(msg, hint="give one of them")
    with opened(config=config) as context:
        if patch:
            pair = revisions.range_of(context, compared)
            text = context.repo.diff(pair.base, pair.cand)
            output.emit("patch", {"base": pair.base, "cand": pair.cand, "patch": text}) if json else output.data(text)
            differs = bool(text)
        elif (regimes := runs.regimes_of(context, compared)) is not None:
            fields = differing(context.store, regimes.base, regimes.cand)
            if json:
                output.emit("regimes", {"base": regimes.base, "cand": regimes.cand, "differs": fields})
            for line in [] if json else regime_lines(fields):
                output.data(line)
            differs = bool(fields)
        else:
            found = partings(context.store, runs.runs_of(context, compared, endpoint), task)
            if json:
                more = found.model_dump(include={"regime", "same", "proven", "not_needed", "missing"})
                output.emit_list("divergences", list(found.tasks), **more)
            else:
                for line in render(found, full=task is not None):
                    output.data(line)
            differs = bool(found.tasks or found.regime)
    if differs and exit_code:
        msg = "they differ"
        raise AnswerNo(msg)
