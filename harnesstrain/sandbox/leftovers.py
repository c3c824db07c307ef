"""Removing what bears this program's labels: containers, and the networks and volumes of their projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harnesstrain.sandbox.engine import translated

LABEL = "harnesstrain.owner"
GONE = (404, 409)
"""Answers for what is not there, or is being removed by somebody else."""


def remove_all(client: Any, wanted: Callable[[Mapping[str, str]], bool], label: str = LABEL) -> int:
    """Remove everything with `label` whose labels are `wanted`; returns how many things.  Raises SandboxFailure."""
    removed = 0
    chosen = {"label": label}
    with translated("looking for what was left"):
        for one in client.api.containers(all=True, filters=chosen):
            if wanted(one.get("Labels") or {}):
                remove_container(client, one["Id"])
                removed += 1
        for one in client.api.networks(filters=chosen):
            if wanted(one.get("Labels") or {}):
                _removed(client.api.remove_network, one["Id"])
                removed += 1
        for one in client.api.volumes(filters=chosen).get("Volumes") or ():
            if wanted(one.get("Labels") or {}):
                _removed(client.api.remove_volume, one["Name"], force=True)
                removed += 1
    return removed


def remove_container(client: Any, container: str) -> None:
    """End and remove a container with its nameless volumes.  Raises SandboxFailure."""
    _removed(client.api.remove_container, container, force=True, v=True)


def _removed(remove: Callable[..., object], name: str, **how: bool) -> None:
    from docker.errors import APIError

    with translated(f"removing {name[:12]}"):
        try:
            remove(name, **how)
        except APIError as error:
            if error.status_code not in GONE:
                raise
