"""`ht fsck`: is everything that the records name there, and nothing else?"""

from __future__ import annotations

from harnesstrain.cli import options as opt


def command(exit_code: opt.ExitCode = False, config: opt.Config = None, json: opt.Json = False) -> None:
    """Find missing files, orphan files, dangling references, broken chains.  Prints one finding a line."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only
    from harnesstrain.core.errors import AnswerNo

    with store_only(config=config) as store:
        findings = list(store.fsck())
    if json:
        output.emit_list("findings", findings)
    else:
        for finding in findings:
            output.data(f"{finding.kind} {finding.subject}: {finding.problem}")
    if not findings:
        output.say("nothing wrong")
    elif exit_code:
        msg = f"{len(findings)} findings"
        raise AnswerNo(msg, hint="`ht gc` removes orphans")
