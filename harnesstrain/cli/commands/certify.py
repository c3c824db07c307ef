"""`ht certify`: is the measurement deterministic?"""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    what: Annotated[str, typer.Argument(metavar="[env]", help="env: re-execute a run's recorded commands.")] = "env",
    run: Annotated[str, typer.Argument(metavar="[RUN|REV|-]", help="A run id, or a version; default: @.")] = "@",
    panel: opt.Panel = None,
    dry_run: opt.DryRun = False,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    given: opt.Set = None,
    progress: opt.Progress = "auto",
    json: opt.Json = False,
) -> None:
    """Re-execute the recorded commands of a run in fresh sandboxes.  Prints certificate ids.

    A task whose output differs is `forked`: comparisons leave it out, and every report lists it.
    """
    from harnesstrain.cli import output, revisions, runs
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import AnswerNo, UsageError
    from harnesstrain.core.records.certificate import Certificate, Certified
    from harnesstrain.stages import certify

    if what != "env":
        if run != "@" or what in ("model", "harness"):
            msg = f"'{what}' is nothing that can be certified here"
            raise UsageError(msg, hint="`ht certify env RUN`")
        what, run = "env", what
    made: list[Certificate] = []
    executed = 0
    with opened(config=config, given=given, progress=progress, drains=True, dry_run=dry_run) as context:
        identifiers = [runs.run_of(context, name) for name in revisions.arguments([run])]
        if dry_run:
            rollouts = [one for identifier in identifiers for one in context.store.rollouts(identifier)]
            text = f"would re-execute {sum(r.actions for r in rollouts)} commands of {len(rollouts)} rollouts"
            output.emit("plan", {"text": text, "runs": identifiers}) if json else output.data(text)
            return
        for identifier in identifiers:
            done = certify.run(context, certify.CertifySpec(run=identifier, panel=panel))
            made += done.certificates
            executed += done.executed
    if json:
        output.emit_list("certificates", made, runs=identifiers, executed=executed)
    for certificate in [] if json else made:
        output.data(certificate.id)
    counts = {result: sum(one.result is result for one in made) for result in Certified}
    shown = ", ".join(f"{count} {result.value}" for result, count in counts.items() if count)
    output.say(f"{shown or 'nothing to certify'}; {executed} chains re-executed now")
    for certificate in made:
        if certificate.result is Certified.FORKED:
            output.say(f"  {certificate.task}: step {certificate.step}: {certificate.command}")
    if exit_code and counts[Certified.FORKED]:
        msg = f"{counts[Certified.FORKED]} tasks forked"
        raise AnswerNo(msg, hint="`ht show CERTIFICATE` shows both outputs")
