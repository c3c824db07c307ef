"""`ht verify`: do the recorded verdicts follow from the recorded rollouts?"""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    verdicts: Annotated[list[str] | None, typer.Argument(metavar="[VERDICT]...", help="Default: all.")] = None,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Derive verdicts again from rollouts, offline.  Prints each record that does not match."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only
    from harnesstrain.core.errors import AnswerNo
    from harnesstrain.stages.judging.derive import rederived

    bad = []
    checked = 0
    with store_only(config=config) as store:
        chosen = [store.verdict(store.resolve(name, kinds=("verdict",)).id) for name in verdicts or ()]
        for verdict in chosen or store.verdicts():
            checked += 1
            for mismatch in rederived(store, verdict):
                bad.append({"verdict": verdict.id, **mismatch.model_dump(mode="json")})
        bad += [
            {"verdict": None, "field": f.subject, "recorded": f.kind, "derived": f.problem}
            for f in store.fsck(deep=False)
            if f.kind == "chain"
        ]
    if json:
        output.emit_list("verification", bad, checked=checked)
    for line in [] if json else bad:
        output.data(f"{(line['verdict'] or '-')[:8]} {line['field']}: recorded {line['recorded']}, {line['derived']}")
    output.say(f"{checked} verdicts derived again, {len(bad)} mismatches")
    if bad and exit_code:
        msg = f"{len(bad)} records do not match"
        raise AnswerNo(msg)
