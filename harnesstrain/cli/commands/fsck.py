"""`ht fsck`: is everything that the records name there, and nothing else?"""

from __future__ import annotations

from harnesstrain.cli import options as opt

CACHE = "cache.db"
"""The file that can be made again."""


def command(exit_code: opt.ExitCode = False, config: opt.Config = None, json: opt.Json = False) -> None:
    """Find missing files, orphan files, dangling references, broken chains, a damaged cache.

    Prints one finding a line.
    """
    from harnesstrain.cli import output
    from harnesstrain.cli.lost import instead
    from harnesstrain.cli.session import settings_for, store_only
    from harnesstrain.core.errors import AnswerNo

    with store_only(config=config) as store:
        findings = list(store.fsck())
        lost = list(dict.fromkeys(finding.run for finding in findings if finding.run is not None))
        root = settings_for(config=config).root
        ways = {run: instead(store, root, run, lost) for run in lost}
    findings = [
        one.model_copy(update={"problem": f"{one.problem}; {ways[one.run]}"}) if one.run is not None else one
        for one in findings
    ]
    if json:
        output.emit_list("findings", findings)
    else:
        for finding in findings:
            output.data(f"{finding.kind} {finding.subject}: {finding.problem}")
    if not findings:
        output.say("nothing wrong")
    elif exit_code:
        msg = output.counted(len(findings), "finding")
        raise AnswerNo(msg, hint=_hint({finding.kind for finding in findings if finding.subject != CACHE}))


def _hint(kinds: set[str]) -> str:
    """The way out of what was found, the worst first."""
    ways = {
        "missing": "traces that are missing stay lost, and verdicts that need them cannot be derived again",
        "orphan": "`ht gc` removes orphans",
    }
    if not kinds:
        return f"delete {CACHE} in the store: what it holds can be made again"
    found = [way for kind, way in ways.items() if kind in kinds]
    return "; ".join(found) or "restore the newest copy of .ht (`*.bak` in it, or your backup)"
