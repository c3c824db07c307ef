"""The containers of one task, started by the `docker compose` client from a file that was made for them.

Every one is bounded, labelled and without new privileges; networks belong to the project alone, and lead nowhere unless
the sandbox has a network.  `main` stays up, and the agent is started in it.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.scratch import temporary
from harnesstrain.sandbox.compose import MAIN, STAYS_UP, Composition, Service
from harnesstrain.sandbox.guard import Guard

PASSED = ("PATH", "HOME", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "DOCKER_HOST", "DOCKER_CONTEXT")
"""Variables that the client gets of this machine."""
LOG = {"driver": "json-file", "options": {"max-size": "1m", "max-file": "1"}}
SIDECAR_CAPABILITIES = ["SETPCAP"]
PROJECT = "com.docker.compose.project"
SERVICE = "com.docker.compose.service"
DEFAULT = "default"
"""Compose's name for the network of a project that names none."""


@functools.cache
def client_argv() -> tuple[str, ...] | None:
    """`docker compose` or `docker-compose`, whichever answers here; None where neither does."""
    for argv in (("docker", "compose"), ("docker-compose",)):
        if shutil.which(argv[0]):
            done = subprocess.run([*argv, "version"], capture_output=True, check=False, env=_passed(None))
            if done.returncode == 0:
                return argv
    return None


@dataclass(frozen=True)
class Bounds:
    """What every container of a project is given."""

    labels: Mapping[str, str]
    limits: Limits
    memory_mb: int
    """Of a container that names none."""
    largest: int
    """Bytes of a file."""
    network: str
    """none or host: whether the project's networks lead out."""
    capabilities: tuple[str, ...]
    seccomp: Path


def document(
    composition: Composition, images: Mapping[str, str], main: Mapping[str, Any], bounds: Bounds
) -> dict[str, Any]:
    """The file for the client.  `images`: by service; `main`: settings of `main` beside those of its own."""
    services = {
        name: _service(service, images[name], bounds, main if name == MAIN else {})
        for name, service in composition.services.items()
    }
    ready = [name for name, service in composition.services.items() if service.checks_health and name != MAIN]
    _await(services, ready)
    labels = dict(bounds.labels)
    network: dict[str, Any] = {"labels": labels}
    if bounds.network == "none":  # the host itself cannot be reached either: the bridge has no address
        network |= {"internal": True, "driver_opts": {"com.docker.network.bridge.inhibit_ipv4": "true"}}
    made = {"services": services, "networks": dict.fromkeys({*composition.networks, DEFAULT}, network)}
    made["volumes"] = {name: {"labels": labels} for name in composition.volumes}
    return dict(_escaped(made))


def _service(service: Service, image: str, bounds: Bounds, more: Mapping[str, Any]) -> dict[str, Any]:
    memory = service.memory_mb or bounds.memory_mb
    own = dict(service.settings)
    found = {
        "image": image,
        "cap_drop": ["ALL"],
        "cap_add": [*bounds.capabilities, *SIDECAR_CAPABILITIES],
        "security_opt": ["no-new-privileges:true", f"seccomp:{bounds.seccomp}"],
        "mem_limit": f"{memory}m",
        "memswap_limit": f"{memory}m",
        "pids_limit": service.pids or bounds.limits.pids,
        "ulimits": {"core": 0, "fsize": bounds.largest},
        "logging": LOG,
        **own,
        "labels": dict(bounds.labels),
    }
    if service.cpus:
        found["cpus"] = service.cpus
    if service.name == MAIN and not own.get("command"):
        found["command"] = STAYS_UP
    found |= {key: value for key, value in more.items() if key not in ("environment", "volumes")}
    found["environment"] = {**more.get("environment", {}), **own.get("environment", {})}
    found["volumes"] = [*own.get("volumes", []), *more.get("volumes", [])]
    return {key: value for key, value in found.items() if value not in ({}, [])}


def _await(services: dict[str, dict[str, Any]], ready: list[str]) -> None:
    """Have `main` wait for the services that say when they are ready, unless they wait for it."""
    given = services[MAIN].get("depends_on") or {}
    waits = dict(given) if isinstance(given, dict) else {name: {"condition": "service_started"} for name in given}
    for name in ready:
        if MAIN not in _before(services, name, set()):
            waits.setdefault(name, {"condition": "service_healthy"})
    if waits:
        services[MAIN]["depends_on"] = waits


def _before(services: Mapping[str, Mapping[str, Any]], name: str, seen: set[str]) -> set[str]:
    """Every service that `name` waits for."""
    for other in services[name].get("depends_on") or ():
        if other not in seen:
            seen.add(other)
            _before(services, other, seen)
    return seen


def _escaped(value: Any) -> Any:
    """With `$` as `$$`: nothing is a variable any more."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: _escaped(one) for key, one in value.items()}
    return [_escaped(one) for one in value] if isinstance(value, list) else value


def start(name: str, made: Mapping[str, Any], guard: Guard, host: str | None, within: float) -> None:
    """Start the project `name`; returns when every service that others wait for is ready.  Raises SandboxFailure.

    `within`: seconds.  After a failure some containers may be left.
    """
    argv = client_argv()
    assert argv is not None
    with temporary("compose") as folder:
        file = Path(folder, "compose.json")
        file.write_text(json.dumps(made))
        options = ["-p", name, "-f", str(file), "--project-directory", str(folder)]
        guard.watch()
        process = subprocess.Popen(
            [*argv, *options, "up", "-d", "--no-build"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=_passed(host),
            start_new_session=True,
        )
        with guard.client(process):
            try:
                said, _ = process.communicate(timeout=within)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise SandboxFailure(f"the task's containers were not ready within {within:g} s") from None
            finally:
                process.kill()
    if process.returncode != 0:
        lines = said.decode(errors="replace").strip().splitlines()
        raise SandboxFailure(f"the task's containers do not start: {' '.join(lines[-3:])[-500:]}")


def _passed(host: str | None) -> dict[str, str]:
    found = {name: os.environ[name] for name in PASSED if name in os.environ}
    return {**found, "DOCKER_HOST": host} if host else found
