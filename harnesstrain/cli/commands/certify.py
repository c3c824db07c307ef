"""`ht certify`: is the measurement deterministic?"""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt

WHAT = (
    "model: ask the endpoint.  env: re-execute a run's recorded commands, and grade again.  harness: play a run "
    "back to its harness.  Default: all that apply."
)


def command(
    what: Annotated[str | None, typer.Argument(metavar="[model|env|harness]", help=WHAT)] = None,
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN|REV|-]", help="env, harness: a run id, or a version; default: @.")
    ] = None,
    panel: opt.Panel = None,
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="NAME|URL", help="Another model, as of `ht evaluate`.")
    ] = None,
    max_running: Annotated[
        int | None,
        typer.Option("--max-running", min=1, max=65_536, help="model: test up to this many requests at once."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="model: fewer and shorter prompts.")] = False,
    thorough: Annotated[bool, typer.Option("--thorough", help="model: more and longer prompts.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Certify also what has a certificate already.")] = False,
    dry_run: opt.DryRun = False,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    given: opt.Set = None,
    progress: opt.Progress = "auto",
    json: opt.Json = False,
) -> None:
    """Find out whether model, environment and harness repeat themselves.  Prints certificate ids.

    A model is certified for the largest number of requests at once whose replies stay equal; runs keep within it.
    A task whose output or outcome differs, or on which the harness does something else with the same replies, is
    `forked`: comparisons leave it out, and every report lists it.  With no word the model is asked quickly.
    """
    from harnesstrain.cli import certifying, output, revisions
    from harnesstrain.cli.endpoints import on_one
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import AnswerNo, UsageError
    from harnesstrain.stages.certify import CertifySpec, HarnessSpec, ModelSpec

    if quick and thorough:
        raise UsageError("--quick and --thorough exclude each other", hint="give one of them, or neither")
    asked = certifying.asked(what, run)
    depth = "thorough" if thorough else "quick" if quick or asked.all else "standard"
    spec = ModelSpec(depth=depth, max_running=max_running, again=again)
    made = certifying.Made()
    with (
        opened(config=config, given=given, progress=progress, drains=True, dry_run=dry_run) as project,
        on_one(project, endpoint) as context,
    ):
        names = revisions.arguments([asked.run]) if {"env", "harness"}.intersection(asked.parts) else []
        certifying.check_names(context, names, word=asked.all and what is not None)
        if dry_run:
            plans, identifiers = certifying.plans(context, asked, spec, names, endpoint)
            for text in [] if json else plans:
                output.data(text)
            if json:
                output.emit("plan", {"text": "; ".join(plans), "runs": identifiers})
            return
        if "model" in asked.parts:
            with certifying.part("model", asked, made):
                certifying.of_model(context, spec, made)
                if not json:
                    output.data(made.certificates[0].id)
                made.printed = 1
        identifiers = certifying.runs_named(context, names, strict=not asked.all, endpoint=endpoint)
        if identifiers and "env" in asked.parts:
            with certifying.part("environments", asked, made):
                these = certifying.of_this_regime(context, identifiers) if asked.all else identifiers
                certifying.of_env(context, these, CertifySpec(run="", panel=panel, again=again), made)
        if identifiers and "harness" in asked.parts:
            with certifying.part("harness", asked, made):
                certifying.of_harness(context, identifiers, HarnessSpec(run="", panel=panel, again=again), made)
    if made.missing and not made.certificates:
        raise made.missing[0]
    if json:
        output.emit_list("certificates", made.certificates, runs=made.runs, executed=made.executed, played=made.played)
    for certificate in [] if json else made.certificates[made.printed :]:
        output.data(certificate.id)
    if exit_code and made.forked:
        msg = f"{' and '.join(made.forked)} forked"
        raise AnswerNo(msg, hint="`ht show CERTIFICATE` shows both sides")
