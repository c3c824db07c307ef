"""Values of this machine that a verifier was given: they appear in nothing that is kept of what it printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import Verifier

SHORTEST = 4
"""Characters of a value that is looked for; a shorter one would be found everywhere."""


def masked(text: str, verifier: Verifier) -> str:
    """`text`, where each value that came from this machine is its variable's text in task.toml."""
    given = {verifier.env[name]: text for name, text in verifier.templates.items() if name in verifier.env}
    for value in sorted(given, key=len, reverse=True):
        if len(value) >= SHORTEST and value != given[value]:
            text = text.replace(value, given[value])
    return text


def masked_grade(grade: Grade, verifier: Verifier) -> Grade:
    """A grade whose output is masked."""
    return grade.model_copy(update={"output": masked(grade.output, verifier)}) if verifier.templates else grade


@contextmanager
def masking(verifier: Verifier) -> Iterator[None]:
    """A VerifierFailure that leaves the block is masked, its evidence too."""
    try:
        yield
    except VerifierFailure as failure:
        if verifier.templates:
            failure.message = masked(failure.message, verifier)
            failure.args = (failure.message,)
            failure.extra = {key: _masked(one, verifier) for key, one in failure.extra.items()}
        raise


def _masked(value: object, verifier: Verifier) -> object:
    if isinstance(value, list | tuple):
        return [_masked(one, verifier) for one in value]
    return masked(value, verifier) if isinstance(value, str) else value
