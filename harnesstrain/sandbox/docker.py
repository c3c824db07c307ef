"""`docker`: containers of a Docker engine, each with the agent as its first process.

The agent is attached to the container's stdin: when the driver goes, the engine closes it, the agent ends, and the
container is removed by itself.  Labels and `sweep` are the second line.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from harnesstrain.core import seccomp
from harnesstrain.core.digests import digest
from harnesstrain.core.errors import SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import Capabilities, Limits, SandboxIdentity
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import bundle, pins
from harnesstrain.sandbox.engine import SocketChannel, connect, is_orphan, owner_labels, reason_against, translated
from harnesstrain.sandbox.images import Images
from harnesstrain.sandbox.layers import LOCKS
from harnesstrain.sandbox.session import AgentSession
from harnesstrain.sandbox.wire import Agent

MEMORY_MB, FILE_MB = 2048, 10_240
"""Bounds when neither the task nor the regime names any: memory, and the largest file."""
FLOOR_MB = 1024
"""Free space of the engine's disk below which a command is ended."""
STARTED_WITHIN = 60.0
OWN_PROCESSES = 8
SHM = "64m"
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETUID", "SETGID"]
COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
CHOOSE = """
if python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null
then exec python3 -I -S -c "$1"
else exec sh -c "$2"
fi
"""
UNTIL_EOF = ["sh", "-c", "cat >/dev/null"]
"""What keeps a container with an ENTRYPOINT of its own alive: until the driver goes."""


def engine_answers(host: str | None = None) -> str | None:
    """None when an engine answers and can limit; else the reason, in one sentence."""
    return reason_against(host)


class DockerSandbox:
    """Containers of one engine."""

    def __init__(
        self,
        *,
        network: str = "none",
        docker_host: str | None = None,
        cache_dir: Path | None = None,
        build_network: str | None = None,
        archives: Path | None = None,
    ) -> None:
        """`docker_host`: the engine's address, else Docker's own variables; `build_network`: for RUN instructions.

        `archives`: directory of images as files, for what the engine lacks.

        Raises Prerequisite when no engine answers, or it would drop limits.
        """
        self.network = network
        self._client = connect(docker_host)
        self._info = self._client.info()
        cache = cache_dir or user_cache_path("harnesstrain")
        self._images = Images(self._client, cache / LOCKS, build_network, archives)
        self._files = _PinFiles(cache / "pins", self._client)
        self._starts = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._turn = itertools.count()
        self._open: weakref.WeakSet[DockerSession] = weakref.WeakSet()

    def capabilities(self) -> Capabilities:
        """What the engine isolates."""
        return Capabilities(
            kind="docker",
            isolated=True,
            network_modes=("none", "host"),
            builds_dockerfile=True,
            forks=False,
            pins=(
                "environment",
                "hostname",
                "user",
                "aslr",
                "pids",
                "cpus",
                *(("proc",) if self._files.usable else ()),
            ),
            notes=(
                "grading happens in the task's own container",
                "disk use is bounded per file and by what the engine's disk has free",
            ),
        )

    def identity(self) -> SandboxIdentity:
        """The engine's platform and the system call filter; a task's image is part of its own digest."""
        image = digest([self._info.get("OSType"), self._info.get("Architecture"), seccomp.profile()])
        return SandboxIdentity(kind="docker", image=image, pins=pins.VERSION, network=self.network)

    def check(self, environment: Environment) -> None:
        """Raises Unsupported: compose services, or network that the sandbox was not given."""
        if environment.context is None and environment.image is None:
            raise Unsupported("the task has neither a Dockerfile nor an image")
        for name in COMPOSE if environment.context else ():
            if environment.context and (environment.context / name).exists():
                raise Unsupported(f"the docker sandbox does not run compose services ({name})")
        if environment.network != "none" and self.network == "none":
            raise Unsupported(
                f"the task wants network '{environment.network}' and the sandbox has none",
                hint="`--set sandbox.network=host` allows it",
            )

    def prepare(self, environment: Environment) -> None:
        """Build or pull the image, once."""
        self.check(environment)
        self._images.obtain(environment)

    def built(self, environment: Environment) -> int | None:
        """Bytes of the image, the layers that it shares with others included."""
        found = self._images.known(environment)
        return None if found is None else int(found.get("Size") or 0)

    def open(self, environment: Environment, *, limits: Limits | None = None, at: str | None = None) -> DockerSession:
        """Start a container."""
        if at is not None:
            raise SandboxFailure(f"no state is kept under {at[:8]}")
        self.check(environment)
        image = self._images.obtain(environment)
        config = image.get("Config") or {}
        bounds = limits or Limits()
        session = DockerSession(self._start(image["Id"], config, environment, bounds), bounds.output_bytes)
        self._open.add(session)
        session.user = environment.user or config.get("User") or None
        session.enter(environment.workdir, config.get("WorkingDir") or "/")
        return session

    def sealed(self, keys: Sequence[str]) -> str | None:  # noqa: ARG002
        """None: this kind keeps no states."""
        return None

    def sweep(self) -> int:
        """Remove containers of dead drivers."""
        swept = 0
        with translated("listing containers"):
            found = self._client.api.containers(all=True, filters={"label": "harnesstrain.owner"})
        for container in found:
            if is_orphan(container.get("Labels") or {}):
                self._remove(container["Id"])
                swept += 1
        return swept

    def close(self) -> None:
        """End every open session."""
        for session in list(self._open):
            session.close()
        self._client.close()

    # --- starting ---

    def _start(self, image: str, config: dict[str, Any], environment: Environment, bounds: Limits) -> Agent:
        entrypoint = config.get("Entrypoint")
        agent = ["/bin/sh", "-c", CHOOSE, "agent", bundle.BOOT, bundle.shell_agent()]
        with self._starts, translated("starting a container"):
            container = self._client.api.create_container(
                image,
                command=UNTIL_EOF if entrypoint else None,
                entrypoint=None if entrypoint else agent,
                user="0",
                hostname=pins.HOSTNAME,
                stdin_open=True,
                detach=False,
                working_dir="/",
                environment=self._environment(config, environment),
                labels=owner_labels(),
                host_config=self._host_config(environment, bounds),
            )["Id"]
            channel: SocketChannel | None = None
            try:
                streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                attached = self._client.api.attach_socket(container, params=streams)
                channel = SocketChannel(attached, lambda: self._remove(container))
                self._client.api.start(container)
                if entrypoint:
                    inner = self._client.api.exec_create(container, agent, stdin=True, user="0", workdir="/")
                    channel.switch(self._client.api.exec_start(inner["Id"], socket=True))
                found = Agent(channel)
                found.ready(bundle.message(None), pins.PID_BASE, STARTED_WITHIN, FLOOR_MB)
                return found
            except BaseException:
                channel.close() if channel else self._remove(container)
                raise

    def _environment(self, config: dict[str, Any], environment: Environment) -> dict[str, str]:
        own = dict(pair.partition("=")[::2] for pair in config.get("Env") or ())
        return {**pins.ENVIRONMENT, **own, **environment.env}

    def _host_config(self, environment: Environment, bounds: Limits) -> Any:
        import docker

        processors = int(self._info.get("NCPU") or 1)
        wanted = environment.cpus or bounds.cpus or 1
        count = min(math.ceil(wanted), processors)
        first = next(self._turn) * count
        memory = environment.memory_mb or bounds.memory_mb or MEMORY_MB
        largest = (environment.storage_mb or bounds.storage_mb or FILE_MB) << 20
        return self._client.api.create_host_config(
            network_mode=self.network,
            mem_limit=f"{memory}m",
            memswap_limit=f"{memory}m",
            nano_cpus=None if wanted >= count else int(wanted * 1e9),
            cpuset_cpus=",".join(str((first + number) % processors) for number in range(count)),
            pids_limit=bounds.pids + OWN_PROCESSES,
            cap_drop=["ALL"],
            cap_add=CAPABILITIES,
            security_opt=["no-new-privileges", f"seccomp={seccomp.profile()}"],
            ulimits=[
                docker.types.Ulimit(name="core", soft=0, hard=0),
                docker.types.Ulimit(name="nofile", soft=1024, hard=1024),
                docker.types.Ulimit(name="fsize", soft=largest, hard=largest),
            ],
            shm_size=SHM,
            auto_remove=True,
            log_config=docker.types.LogConfig(type="none"),
            mounts=self._files.mounts(count, memory),
        )

    def _remove(self, container: str) -> None:
        from docker.errors import APIError

        try:
            self._client.api.remove_container(container, force=True, v=True)
        except APIError as error:
            if error.status_code not in (404, 409):  # gone, or being removed
                raise SandboxFailure(f"a container cannot be removed: {error.explanation}") from error


class DockerSession(AgentSession):
    """One running container.  Grading happens in it: the base class's `fork` raises Unsupported."""


class _PinFiles:
    """Fixed texts over /proc files, bound from this machine; only where the engine sees this machine's files."""

    def __init__(self, folder: Path, client: Any) -> None:
        self._folder = folder
        same_machine = client.api.base_url.startswith("http+docker://")  # a socket in the file system
        self.usable = same_machine and Path("/proc/stat").exists()

    def mounts(self, cpus: int, memory_mb: int) -> list[Any]:
        """Read-only binds for a container with so many processors and so much memory."""
        import docker

        if not self.usable:
            return []
        folder = self._folder / f"{pins.VERSION}-{cpus}-{memory_mb}"
        found = []
        for target, text in {**pins.proc_files(cpus, memory_mb), **pins.cpu_files(cpus)}.items():
            file = folder / target.strip("/").replace("/", "-")
            if not file.is_file():
                folder.mkdir(parents=True, exist_ok=True)
                part = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
                part.write_text(text)
                part.rename(file)
            found.append(docker.types.Mount(target, str(file), type="bind", read_only=True))
        return found
