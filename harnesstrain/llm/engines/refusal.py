"""What an engine cannot honour, it refuses."""

from __future__ import annotations

from harnesstrain.core.errors import UsageError
from harnesstrain.llm.base import EngineSpec


def refuse(spec: EngineSpec, engine: str, *, url: bool = False, script: bool = False, options: bool = False) -> None:
    """Raise UsageError when `spec` sets something that is named here: it would have no effect."""
    given = {
        "a URL": url and spec.url is not None,
        "a script": script and spec.script is not None,
        "options": options and bool(spec.options),
    }
    for what, present in given.items():
        if present:
            raise UsageError(f"the {engine} engine takes no {what.split()[-1]}", hint="leave it out")
    for name, value in (("context_length", spec.context_length), ("max_running", spec.max_running)):
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1", hint="give a positive number")
