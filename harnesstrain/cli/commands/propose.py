"""`ht propose`: let the estimator change the harness."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    base: Annotated[str, typer.Option("--base", metavar="REV", help="Version to change.")] = "@",
    estimator: Annotated[str | None, typer.Option("--estimator", "-e", help="Name or module:Class.")] = None,
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    given: opt.Set = None,
    progress: opt.Progress = "auto",
    json: opt.Json = False,
) -> None:
    """Let the estimator propose one change, and capture it.  Prints the candidate's id.

    Exits 4 when there is no valid candidate; the reason is recorded.
    """
    from harnesstrain.cli import output, revisions
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import ProposalFailure
    from harnesstrain.core.records.candidate import CandidateStatus
    from harnesstrain.core.registry import load as plugin
    from harnesstrain.stages import propose

    with opened(config=config, given=given, progress=progress, dry_run=dry_run) as context:
        commit = revisions.commit_of(context, base)
        name = estimator or context.settings.loop.estimator
        if dry_run:
            plugin("estimators", name)
            context.repo.version(commit)
            text = f"would ask '{name}' for one change to {commit[:8]}"
            output.emit("plan", {"text": text, "base": commit, "estimator": name}) if json else output.data(text)
            return
        candidate = propose.run(context, propose.ProposeSpec(base=commit, estimator=name))
        if json:
            output.emit("candidate", candidate)
        if candidate.status is not CandidateStatus.CANDIDATE:
            msg = f"{candidate.status.value}: {candidate.reason}"
            hint = f"`ht show {candidate.id[:8]}` has the transcript, if one was kept"
            if candidate.status is CandidateStatus.NO_CANDIDATE and name == "patches":
                hint = f"add a *.patch file to {context.settings.estimator.get(name, {}).get('dir', 'its directory')}/"
            raise ProposalFailure(msg, hint=hint)
        if not json:
            output.data(candidate.id)
