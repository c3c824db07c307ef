"""The embedded engine: a real model in this process's own workers.  No GPU, no server, no compiler."""

from __future__ import annotations

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.refusal import refuse

_OPTIONS = ("workers", "logprobs")


class EmbeddedEngine:
    """Starts an EmbeddedModel.  Deterministic by construction, asked for or not.

    Options: `workers` (processes; absent: one per core), `logprobs` ("on": report them with every reply).
    """

    def check(self, spec: EngineSpec) -> None:
        """Start and close again: that starts no program."""
        self.start(spec).close()

    def start(self, spec: EngineSpec) -> Model:
        """Find the weights; workers start with the first request.  Raises UsageError, NotFound, Prerequisite."""
        refuse(spec, "embedded", url=True, script=True)
        for name in spec.options:
            if name not in _OPTIONS:
                raise UsageError(f"the embedded engine has no option '{name}'", hint=f"known: {', '.join(_OPTIONS)}")
        try:
            from harnesstrain.llm.embedded.model import CONTEXT_LENGTH, MAX_RUNNING, EmbeddedModel
            from harnesstrain.llm.models.catalogue import DEFAULT
            from harnesstrain.llm.models.pull import model_file
        except ImportError as error:
            raise Prerequisite(f"the embedded engine cannot be loaded: {error}", hint="`ht doctor` says why") from None
        return EmbeddedModel(
            model_file(spec.model or DEFAULT),
            context_length=spec.context_length or CONTEXT_LENGTH,
            max_running=spec.max_running or MAX_RUNNING,
            workers=_workers(spec.options.get("workers")),
            logprobs=_switch(spec.options.get("logprobs", "off")),
        )


def _workers(value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UsageError("option 'workers' must be a positive number", hint="leave it out for one per core")
    return int(value)


def _switch(value: str) -> bool:
    if value not in ("on", "off"):
        raise UsageError("option 'logprobs' must be on or off", hint="leave it out")
    return value == "on"
