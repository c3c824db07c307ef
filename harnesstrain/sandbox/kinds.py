"""Opening a sandbox by kind."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from harnesstrain.core import registry
from harnesstrain.core.confinement import unavailable
from harnesstrain.core.errors import UsageError
from harnesstrain.sandbox.base import Sandbox

AUTO = "auto"


def open_sandbox(
    kind: str = AUTO,
    *,
    network: str = "none",
    cache_dir: Path | None = None,
    docker_host: str | None = None,
    archives: Path | None = None,
    **options: Any,
) -> Sandbox:
    """The sandbox `kind`: auto, local, docker, process, a registered name, or module:Class.

    `network`: none or host; `cache_dir`: where built layers are kept; `docker_host`: address of the engine; `archives`:
    directory of images as files.  Each kind takes what it knows of these; further `options` are its own.
    Raises UsageError, NotFound, Prerequisite.
    """
    if network not in ("none", "host"):
        raise UsageError(f"no network mode '{network}'", hint="use none or host")
    name = best_kind(docker_host) if kind == AUTO else kind
    made = registry.load("sandboxes", name)
    common = {"network": network, "cache_dir": cache_dir, "docker_host": docker_host, "archives": archives}
    known = inspect.signature(made).parameters
    try:
        sandbox: Sandbox = made(**{key: value for key, value in common.items() if key in known}, **options)
    except TypeError as error:
        raise UsageError(f"sandbox '{name}' cannot be opened: {error}") from error
    return sandbox


def best_kind(docker_host: str | None = None) -> str:
    """The strongest kind that works here: local, else docker, else process (not isolated)."""
    if unavailable() is None:
        return "local"
    from harnesstrain.sandbox.docker import engine_answers

    return "docker" if engine_answers(docker_host) is None else "process"
