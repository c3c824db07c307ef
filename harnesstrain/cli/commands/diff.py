"""`ht diff`: where two versions part."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    compared: Annotated[str, typer.Argument(metavar="A..B", help="Versions, runs or regimes.")],
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only this task: both sides of its step.")] = None,
    full: Annotated[bool, typer.Option("--full", help="With --task: fold nothing.")] = False,
    patch: Annotated[bool, typer.Option("--patch", help="The harness diff instead.")] = False,
    no_pager: opt.NoPager = False,
    exit_code: opt.ExitCode = False,
    endpoint: opt.Endpoint = None,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """The first step where each task's rollouts part, what explains it, and the regime's fields that differ."""
    from harnesstrain.cli import output, paging, revisions, runs
    from harnesstrain.cli.parting import differing, partings, patch_lines, regime_lines, render, render_task
    from harnesstrain.cli.session import opened
    from harnesstrain.cli.styled import Line
    from harnesstrain.core.errors import AnswerNo, UsageError

    if patch and task is not None:
        msg = "--patch is of the whole harness, and --task of one task's steps"
        raise UsageError(msg, hint="give one of them")
    if full and task is None:
        msg = "--full is of one task"
        raise UsageError(msg, hint="name it with --task")
    width = paging.terminal_width()
    lines: list[Line | str] = []
    with opened(config=config) as context:
        if patch:
            pair = revisions.range_of(context, compared)
            text = context.repo.diff(pair.base, pair.cand)
            if json:
                output.emit("patch", {"base": pair.base, "cand": pair.cand, "patch": text})
            lines += patch_lines(text)
            differs = bool(text)
        elif (regimes := runs.regimes_of(context, compared)) is not None:
            fields = differing(context.store, regimes.base, regimes.cand)
            if json:
                output.emit("regimes", {"base": regimes.base, "cand": regimes.cand, "differs": fields})
            lines += regime_lines(fields)
            differs = bool(fields)
        else:
            measured = runs.runs_of(context, compared, endpoint)
            found = partings(context.store, measured, task)
            if json:
                more = found.model_dump(include={"regime", "same", "proven", "not_needed", "missing"})
                output.emit_list("divergences", list(found.tasks), **more)
            elif task is None:
                lines += render(found)
            else:
                lines += render_task(context.store, measured, found, full=full, width=width)
            differs = bool(found.tasks or found.regime)
    if not json:
        paging.show(lines, pager=not no_pager)
    if differs and exit_code:
        msg = "they differ"
        raise AnswerNo(msg)
