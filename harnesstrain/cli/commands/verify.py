"""`ht verify`: do the recorded verdicts follow from the recorded rollouts?"""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt

UNKNOWN = "not derived"
"""What is said of a verdict whose traces are lost."""


def command(
    verdicts: Annotated[list[str] | None, typer.Argument(metavar="[VERDICT]...", help="Default: all.")] = None,
    exit_code: opt.ExitCode = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Derive verdicts again from rollouts, offline.  Prints each record that does not match, or cannot be derived."""
    from harnesstrain.cli import output
    from harnesstrain.cli.lost import explain
    from harnesstrain.cli.session import settings_for, store_only
    from harnesstrain.core.errors import AnswerNo, StoreCorrupt
    from harnesstrain.stages.judging.derive import rederived

    bad = []
    checked = 0
    lost: list[StoreCorrupt] = []
    with store_only(config=config) as store:
        chosen = [store.verdict(store.resolve(name, kinds=("verdict",)).id) for name in verdicts or ()]
        for verdict in chosen or store.verdicts():
            checked += 1
            try:
                for mismatch in rederived(store, verdict):
                    bad.append({"verdict": verdict.id, **mismatch.model_dump(mode="json")})
            except StoreCorrupt as error:
                lost.append(error)
                bad.append({"verdict": verdict.id, "field": "-", "recorded": UNKNOWN, "derived": error.message})
        listed = ("chain", "missing") if lost else ("chain",)
        found = store.fsck(deep=False)
        root, gone = settings_for(config=config).root, [f.run for f in found if f.run is not None]
        for one in lost:
            explain(store, root, one, gone)
        bad += [
            {"verdict": None, "field": f.subject, "recorded": f.kind, "derived": f.problem}
            for f in found
            if f.kind in listed
        ]
    if json:
        output.emit_list("verification", bad, checked=checked)
    for line in [] if json else bad:
        output.data(f"{(line['verdict'] or '-')[:8]} {line['field']}: recorded {line['recorded']}, {line['derived']}")
    done = output.counted(checked - len(lost), "verdict")
    wrong = sum(line["recorded"] not in (UNKNOWN, "missing") for line in bad)
    output.say(f"{done} derived again, {wrong} mismatch{'' if wrong == 1 else 'es'}")
    if lost:
        msg = f"{output.counted(len(lost), 'verdict')} cannot be derived any more: {lost[0].message}"
        raise StoreCorrupt(msg, hint=lost[0].hint)
    if bad and exit_code:
        msg = f"{len(bad)} records do not match"
        raise AnswerNo(msg)
