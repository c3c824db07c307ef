"""What is kept of two outputs of one command that differ: both sides raw and scrubbed, a diff, a proposed rule."""

from __future__ import annotations

import difflib

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.sandbox.scrub import scrub
from harnesstrain.sandbox.scrub_proposal import propose

SHOWN = 2000
"""Characters of each side kept as evidence."""
DIFF_LINES = 80
"""Lines of a diff that are kept."""


class Difference(Record):
    """Two outputs side by side, bounded."""

    recorded: str
    """Exit code and scrubbed outputs, as text."""
    observed: str
    recorded_raw: str
    """The same unscrubbed."""
    observed_raw: str
    diff: str
    """Unified diff of the scrubbed sides."""
    proposal: str | None
    """Scrub rules, ready to paste."""
    proposal_reason: str


def difference(recorded: RunResult, observed: RunResult, command: str) -> Difference:
    """What two results of `command` differ in."""
    before, after = _text(recorded, command), _text(observed, command)
    rule, why = None, "the exit codes differ: that is task signal"
    if recorded.timed_out != observed.timed_out:
        why = "one of the two ran out of time"
    elif recorded.exit_code == observed.exit_code:
        found = propose(before, after)
        rule, why = found.rule, found.reason
    return Difference(
        recorded=_shown(recorded, before),
        observed=_shown(observed, after),
        recorded_raw=_shown(recorded, _text(recorded, None)),
        observed_raw=_shown(observed, _text(observed, None)),
        diff=unified(_head(recorded) + before, _head(observed) + after),
        proposal=rule,
        proposal_reason=why,
    )


def unified(before: str, after: str, *, seen: str = "observed") -> str:
    """A unified diff of two texts, bounded in lines and in their length.  `seen`: the other side's name."""
    lines = [
        line.rstrip("\n")[:400]
        for line in difflib.unified_diff(before.splitlines(), after.splitlines(), "recorded", seen, n=2, lineterm="")
    ]
    more = [f"… {len(lines) - DIFF_LINES} lines more"] if len(lines) > DIFF_LINES else []
    return "\n".join(lines[:DIFF_LINES] + more)


def _head(result: RunResult) -> str:
    return f"exit {result.exit_code}{' (timed out)' if result.timed_out else ''}\n"


def _shown(result: RunResult, text: str) -> str:
    return _head(result) + text.strip()[:SHOWN]


def _text(result: RunResult, command: str | None) -> str:
    """Both outputs as text; scrubbed when the command is given."""
    streams = (result.stdout, result.stderr)
    if command is not None:
        streams = (scrub(result.stdout, command), scrub(result.stderr, command))
    return b"\n".join(stream for stream in streams if stream).decode("utf-8", "replace")
