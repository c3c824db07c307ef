"""The scripted engine: `ht serve-llm --engine scripted --script FILE`."""

from __future__ import annotations

from harnesstrain.core.errors import UsageError
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.refusal import refuse
from harnesstrain.llm.script import load_script
from harnesstrain.llm.scripted import ScriptedModel


class ScriptedEngine:
    """Starts a ScriptedModel from a rules file."""

    def check(self, spec: EngineSpec) -> None:
        """Start and close again: that starts no program."""
        self.start(spec).close()

    def start(self, spec: EngineSpec) -> Model:
        """Read the rules.  Raises UsageError (no script), ConfigError (the script cannot be used)."""
        refuse(spec, "scripted", url=True, options=True)
        if spec.script is None:
            raise UsageError("the scripted engine needs a rules file", hint="give --script FILE")
        script = load_script(spec.script)
        settings = script.settings
        changes: dict[str, object] = {}
        if spec.model is not None:
            changes["name"] = spec.model
        if spec.context_length is not None:
            changes["context_length"] = spec.context_length
        if spec.max_running is not None:
            changes["max_running"] = spec.max_running
        if spec.deterministic and not settings.deterministic:
            raise UsageError("the script says that it is not deterministic", hint="leave --deterministic out")
        return ScriptedModel(script, settings.model_copy(update=changes))
