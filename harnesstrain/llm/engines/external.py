"""The external engine: any OpenAI-compatible URL, passed through our front."""

from __future__ import annotations

from harnesstrain.core.errors import LlmFailure, Prerequisite, UsageError
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.engines.refusal import refuse
from harnesstrain.llm.transport import Patience

ABSENT = 5.0
"""Seconds that a server which is not there is waited for: the front's client is told then, and asks again itself."""
_OPTIONS = ("timeout", "deadline", "proxy", "ca", "token_field")


class ExternalEngine:
    """Connects to an endpoint that somebody else runs.

    Options: `timeout`, `deadline` (seconds), `proxy` (URL), `ca` (file), `token_field` (the name under which the server
    wants the token limit, for example max_completion_tokens).
    """

    def check(self, spec: EngineSpec) -> None:
        """Start and close again: that starts no program."""
        self.start(spec).close()

    def start(self, spec: EngineSpec) -> Model:
        """Connect and ask what it serves.  Raises UsageError, Prerequisite (nobody answers)."""
        refuse(spec, "external", script=True)
        if spec.url is None:
            raise UsageError("the external engine needs a URL", hint="give --url http://HOST:PORT/v1")
        if spec.deterministic:
            raise UsageError(
                "nobody can promise that an external endpoint is deterministic",
                hint="leave --deterministic out; `ht certify model` finds out",
            )
        for name in spec.options:
            if name not in _OPTIONS:
                raise UsageError(f"the external engine has no option '{name}'", hint=f"known: {', '.join(_OPTIONS)}")
        model = OpenAIModel(
            spec.url,
            model=spec.model,
            api_key=spec.api_key,
            context_length=spec.context_length,
            max_running=spec.max_running,
            patience=Patience(
                attempt=_seconds(spec, "timeout", 600.0), deadline=_seconds(spec, "deadline", 900.0), absent=ABSENT
            ),
            proxy=spec.options.get("proxy"),
            verify=spec.options.get("ca", True),
            token_field=spec.options.get("token_field", "max_tokens"),
        )
        try:
            model.endpoint()
        except LlmFailure as error:
            model.close()
            raise Prerequisite(error.message, hint=error.hint) from None
        except BaseException:
            model.close()
            raise
        return model


def _seconds(spec: EngineSpec, name: str, default: float) -> float:
    value = spec.options.get(name)
    if value is None:
        return default
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"option '{name}' must be a positive number of seconds", hint="leave it out for the default")
    return seconds
