"""Settings of containers: limits, privileges, variables, and fixed texts over what the kernel tells of the machine."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harnesstrain.core import seccomp
from harnesstrain.core.digests import digest
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import pins
from harnesstrain.sandbox.engine import is_podman
from harnesstrain.sandbox.project import Bounds

MEMORY_MB, FILE_MB = 2048, 10_240
"""Bounds when neither the task nor the regime names any: memory, and the largest file."""
OWN_PROCESSES = 8
SHM = "64m"
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETUID", "SETGID"]
"""Those of Docker's own that tasks are known to need; a server of a task may listen on port 80."""


def memory_mb(environment: Environment, bounds: Limits) -> int:
    """Memory of a container."""
    return environment.memory_mb or bounds.memory_mb or MEMORY_MB


def largest(environment: Environment, bounds: Limits) -> int:
    """Bytes of the largest file."""
    return (environment.storage_mb or bounds.storage_mb or FILE_MB) << 20


class Settings:
    """What the containers of one engine are started with."""

    def __init__(self, client: Any, info: Mapping[str, Any], network: str, folder: Path) -> None:
        """`info`: what the engine says of itself; `folder`: where files are written that containers see."""
        self._api = client.api
        self._there = int(info.get("NCPU") or 1)
        self._network = network
        self._files = _PinFiles(folder, client)
        self._filter = str(self._files.seccomp()) if is_podman(client) else seccomp.profile()
        self._turn = itertools.count()

    @property
    def pins_usable(self) -> bool:
        """Whether the kernel's files can be pinned: the engine sees this machine's files."""
        return self._files.usable

    def variables(self, config: Mapping[str, Any], environment: Environment) -> dict[str, str]:
        """The pins, over them the image's own, over them the task's."""
        own = dict(pair.partition("=")[::2] for pair in config.get("Env") or ())
        return {**pins.ENVIRONMENT, **own, **environment.env}

    def host_config(self, environment: Environment, bounds: Limits) -> Any:
        """Of the only container of a task."""
        import docker

        wanted = environment.cpus or bounds.cpus or 1
        count, cpuset = self._processors(environment, bounds)
        memory, file = memory_mb(environment, bounds), largest(environment, bounds)
        return self._api.create_host_config(
            network_mode=self._network_of(environment),
            mem_limit=f"{memory}m",
            memswap_limit=f"{memory}m",
            nano_cpus=None if wanted >= count else int(wanted * 1e9),
            cpuset_cpus=cpuset,
            pids_limit=bounds.pids + OWN_PROCESSES,
            cap_drop=["ALL"],
            cap_add=CAPABILITIES,
            security_opt=["no-new-privileges", f"seccomp={self._filter}"],
            ulimits=[
                docker.types.Ulimit(name="core", soft=0, hard=0),
                docker.types.Ulimit(name="nofile", soft=1024, hard=1024),
                docker.types.Ulimit(name="fsize", soft=file, hard=file),
            ],
            shm_size=SHM,
            auto_remove=True,
            log_config=docker.types.LogConfig(type="none"),
            mounts=self._files.mounts(count, memory),
        )

    def main(self, environment: Environment, bounds: Limits, config: dict[str, Any]) -> dict[str, Any]:
        """Of the container `main` among several, beside those of its own: as those of an only one."""
        count, cpuset = self._processors(environment, bounds)
        memory = memory_mb(environment, bounds)
        mounts = [
            {"type": "bind", "source": mount["Source"], "target": mount["Target"], "read_only": True}
            for mount in self._files.mounts(count, memory)
        ]
        return {
            "hostname": pins.HOSTNAME,
            "mem_limit": f"{memory}m",
            "memswap_limit": f"{memory}m",
            "pids_limit": bounds.pids + OWN_PROCESSES,
            "cpuset": cpuset,
            "cap_add": CAPABILITIES,
            "environment": self.variables(config, environment),
            "volumes": mounts,
        }

    def _network_of(self, environment: Environment) -> str:
        """A task that wants no network gets none, whatever the sandbox has."""
        return "none" if environment.network == "none" else self._network

    def bounds(self, environment: Environment, limits: Limits, labels: Mapping[str, str]) -> Bounds:
        """Of every container of a task of several."""
        return Bounds(
            labels=labels,
            limits=limits,
            memory_mb=limits.memory_mb or MEMORY_MB,
            largest=largest(environment, limits),
            network=self._network_of(environment),
            capabilities=tuple(CAPABILITIES),
            seccomp=self._files.seccomp(),
        )

    def _processors(self, environment: Environment, bounds: Limits) -> _Processors:
        """How many a container gets, and which: taken in turn."""
        count = min(math.ceil(environment.cpus or bounds.cpus or 1), self._there)
        first = next(self._turn) * count
        return _Processors(count, ",".join(str((first + number) % self._there) for number in range(count)))


class _Processors(NamedTuple):
    number: int
    names: str
    """As a set of the control group."""


class _PinFiles:
    """Fixed texts over /proc files, bound from this machine; only where the engine sees this machine's files."""

    def __init__(self, folder: Path, client: Any) -> None:
        self._folder = folder
        same_machine = client.api.base_url.startswith("http+docker://")  # a socket in the file system
        self.usable = same_machine and Path("/proc/stat").exists()

    def seccomp(self) -> Path:
        """The system call filter, for a client that reads it from a file."""
        return self._written(self._folder / f"seccomp-{digest(seccomp.profile())[:16]}.json", seccomp.profile())

    def mounts(self, cpus: int, memory_mb: int) -> list[Any]:
        """Read-only binds for a container with so many processors and so much memory."""
        import docker

        if not self.usable:
            return []
        folder = self._folder / f"{pins.VERSION}-{cpus}-{memory_mb}"
        found = []
        for target, text in {**pins.proc_files(cpus, memory_mb), **pins.cpu_files(cpus)}.items():
            file = self._written(folder / target.strip("/").replace("/", "-"), text)
            found.append(docker.types.Mount(target, str(file), type="bind", read_only=True))
        return found

    def _written(self, file: Path, text: str) -> Path:
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            part.write_text(text)
            part.rename(file)
        return file
