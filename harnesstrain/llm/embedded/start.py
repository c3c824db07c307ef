"""From an engine spec to a running model."""

from __future__ import annotations

from harnesstrain.core.errors import UsageError
from harnesstrain.llm.base import EngineSpec
from harnesstrain.llm.embedded.model import CONTEXT_LENGTH, KV_BOUND, MAX_RUNNING, EmbeddedModel
from harnesstrain.llm.models.catalogue import DEFAULT
from harnesstrain.llm.models.pull import model_file

OPTIONS = ("workers", "kv_megabytes", "logprobs")


def start_engine(spec: EngineSpec) -> EmbeddedModel:
    """The model that `spec` asks for.  A catalogue model loads with the first request, any other file at once.

    Raises UsageError (an option), NotFound (no such model) or Prerequisite (not pulled, machine cannot run it).
    """
    for name in spec.options:
        if name not in OPTIONS:
            raise UsageError(f"the embedded engine has no option '{name}'", hint=f"known: {', '.join(OPTIONS)}")
    workers, megabytes = _number(spec, "workers", 1), _number(spec, "kv_megabytes", 0)
    file = model_file(spec.model or DEFAULT)
    model = EmbeddedModel(
        file,
        context_length=CONTEXT_LENGTH if spec.context_length is None else spec.context_length,
        max_running=MAX_RUNNING if spec.max_running is None else spec.max_running,
        workers=workers,
        kv_bound=KV_BOUND if megabytes is None else megabytes << 20,
        logprobs=_flag(spec, "logprobs"),
    )
    if file.context is None:
        try:
            model.count_tokens([{"role": "user", "content": ""}])
        except BaseException:
            model.close()
            raise
    return model


def _number(spec: EngineSpec, name: str, least: int) -> int | None:
    text = spec.options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, not '{text}'")
    return int(text)


def _flag(spec: EngineSpec, name: str) -> bool:
    text = spec.options.get(name, "false")
    if text not in ("true", "false"):
        raise UsageError(f"{name} must be true or false, not '{text}'")
    return text == "true"
