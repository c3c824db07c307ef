"""What the step and verify caches store: complete results by the exact input that produced them."""

from __future__ import annotations

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.sandbox import Grade, RunResult


class StepEntry(Record):
    """One recorded environment action.  Served raw: nothing of it is ever rewritten."""

    result: RunResult
    """Raw bytes, exit code, flags and recorded duration."""
    scrubbed: str
    """Digest of the scrubbed result, for comparison; a hit costs no scrub."""
    raw: str
    """Digest of the raw output."""
    rules: str
    """Version of the scrub rules behind `scrubbed`; under other rules it is derived again."""
    errno: str | None = None
    """read and write: name of the file error it ended with."""
    message: str | None = None
    """The file error's message."""


class GradeEntry(Record):
    """What the verifier said about one final state."""

    grade: Grade | None
    """None: the state itself could not be graded."""
    ungradable: str = ""
    """Why not, one sentence."""
