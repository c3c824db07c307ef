"""The embedded engine: a real model in this process's own workers.  No GPU, no server, no compiler."""

from __future__ import annotations

from harnesstrain.core.errors import Prerequisite
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.refusal import refuse


class EmbeddedEngine:
    """Starts an EmbeddedModel.  Deterministic by construction, asked for or not."""

    def start(self, spec: EngineSpec) -> Model:
        """Load the weights and start the workers.  Raises UsageError, Prerequisite (weights or library missing)."""
        refuse(spec, "embedded", url=True, script=True)
        try:
            from harnesstrain.llm import embedded
        except ImportError as error:
            raise Prerequisite(f"the embedded engine cannot be loaded: {error}", hint="`ht doctor` says why") from None
        return embedded.start(spec)
