"""Settings → which model to connect to.

`auto` means: the URL of the settings, else the server that runs detached here, else the embedded engine in this
process.  A named engine other than `external` is started in this process, unless such a server runs here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harnesstrain.core.errors import ConfigError, Prerequisite
from harnesstrain.core.sections import LlmSection
from harnesstrain.core.settings import Settings
from harnesstrain.llm.connect import ConnectSpec

AUTO, EXTERNAL = "auto", "external"
_WITHOUT_SCRIPT = (EXTERNAL, "embedded", "llamacpp", "sglang", "vllm")
"""Engines that a rules file in the settings is not meant for."""


def connect_spec(settings: Settings, state: Path, environ: Mapping[str, str]) -> ConnectSpec:
    """What `llm.connect` needs.  Raises ConfigError (external without a URL), Prerequisite (the key's variable)."""
    llm = settings.llm
    if llm.engine == EXTERNAL and llm.url is None:
        msg = "engine 'external' needs [llm] url"
        raise ConfigError(msg, hint="set HT_LLM_URL, or url in ht.toml")
    url = _url(llm)
    return ConnectSpec(
        url=url,
        state=state if llm.engine == AUTO else None,
        engine=llm.engine,
        model=llm.model,
        api_key=_key(settings, environ) if url else None,
        context_length=llm.context_length,
        max_running=llm.max_running or (None if url else settings.measure.jobs),
        script=script_of(llm),
        deadline=llm.deadline,
    )


def script_of(llm: LlmSection) -> Path | None:
    """The rules file that is used: none where there is a URL, or an engine that it is not meant for."""
    return llm.script if _url(llm) is None and llm.engine not in _WITHOUT_SCRIPT else None


def _url(llm: LlmSection) -> str | None:
    return llm.url if llm.engine in (AUTO, EXTERNAL) else None


def _key(settings: Settings, environ: Mapping[str, str]) -> str | None:
    name = settings.llm.api_key_env
    if name is None:
        return None
    if not environ.get(name):
        msg = f"the environment variable {name}, which api_key_env names, is not set"
        raise Prerequisite(msg, hint=f"export {name}=…")
    return environ[name]
