"""`ht judge`: compare two measured versions."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    compared: Annotated[str, typer.Argument(metavar="BASE..CAND", help="Versions; ..CAND means @..CAND.")],
    criterion: Annotated[str | None, typer.Option("--criterion", "-c", help="Name or module:Class.")] = None,
    dry_run: opt.DryRun = False,
    exit_code: opt.ExitCode = False,
    endpoint: opt.Endpoint = None,
    config: opt.Config = None,
    given: opt.Set = None,
    json: opt.Json = False,
) -> None:
    """Compare two measured versions with a criterion.  Prints the verdict's id.

    Exits 4 when infrastructure noise could flip the verdict.
    """
    from harnesstrain.cli import output, runs
    from harnesstrain.cli.choosing import configured_panel
    from harnesstrain.cli.doubting import doubt_of
    from harnesstrain.cli.session import opened
    from harnesstrain.cli.tables import flip_lines, verdict_line, verdict_object
    from harnesstrain.core.errors import AnswerNo, Unmeasurable
    from harnesstrain.core.records.verdict import Decision
    from harnesstrain.core.registry import load as plugin
    from harnesstrain.stages import judging

    with opened(config=config, given=given, dry_run=dry_run) as context:
        plugin("criteria", criterion or context.settings.loop.criterion)
        pair = runs.different(context, compared, endpoint)
        run = context.store.run(pair.cand)
        if run.imported is None and configured_panel(context) not in ("", run.panel):
            output.say(f"note: judged on {run.place}, not on the configured panel and split")
        spec = judging.JudgeSpec(base_run=pair.base, cand_run=pair.cand, criterion=criterion, record=not dry_run)
        verdict = judging.run(context, spec)
        output.emit("verdict", verdict_object(verdict)) if json else output.data(verdict.id)
        output.say(verdict_line(verdict))
        for line in flip_lines(flip.model_dump() for flip in (*verdict.gained, *verdict.lost)):
            output.say(line)
        if verdict.decision is Decision.UNMEASURABLE:
            doubt = doubt_of(context, verdict)
            raise Unmeasurable(doubt.message, hint=doubt.hint)
        if exit_code and not verdict.selected:
            msg = f"the candidate is not selected: {verdict.sentence}"
            raise AnswerNo(msg)
