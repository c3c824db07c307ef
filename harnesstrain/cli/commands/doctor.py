"""`ht doctor`: what this machine can do."""

from __future__ import annotations

from harnesstrain.cli import options as opt


def command(exit_code: opt.ExitCode = False, json: opt.Json = False) -> None:
    """Say what this machine can do, each line with the fix for what it cannot."""
    from harnesstrain.cli import output
    from harnesstrain.core.errors import AnswerNo
    from harnesstrain.measure.doctor import examine

    found = []
    for one in examine():
        found.append(one)
        if not json:
            mark = "ok" if one.ok else ("MISSING" if one.needed else "-")
            output.data(f"{mark:8}{one.name:16} {one.detail}" + (f"  → {one.fix}" if one.fix else ""))
    missing = [one.name for one in found if one.needed and not one.ok]
    if json:
        output.emit_list("doctor", found, ok=not missing)
    if missing and exit_code:
        msg = f"missing: {', '.join(missing)}"
        raise AnswerNo(msg)
