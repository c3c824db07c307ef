"""`docker`: containers of a Docker engine, each with the agent as its first process.

The agent is attached to the container's stdin: when the driver goes, the engine closes it, the agent ends, and the
container is removed by itself.  Labels and `sweep` are the second line.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from harnesstrain.core import seccomp
from harnesstrain.core.digests import digest
from harnesstrain.core.errors import SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import Capabilities, Limits, SandboxIdentity
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import bundle, pins, project, vetting
from harnesstrain.sandbox.compose import MAIN, Composition, Service, read_composition
from harnesstrain.sandbox.container import Settings, memory_mb
from harnesstrain.sandbox.engine import (
    SocketChannel,
    changed_paths,
    connect,
    ended,
    is_orphan,
    owner_labels,
    reason_against,
    translated,
)
from harnesstrain.sandbox.guard import Guard
from harnesstrain.sandbox.images import Images, Recipe
from harnesstrain.sandbox.layers import LOCKS
from harnesstrain.sandbox.leftovers import remove_all, remove_container
from harnesstrain.sandbox.session import AgentSession
from harnesstrain.sandbox.wire import Agent

FLOOR_MB = 1024
"""Free space of the engine's disk below which a command is ended."""
STARTED_WITHIN = 60.0
CHOOSE = """
if python3 -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null
then exec python3 -I -S -c "$1"
else exec sh -c "$2"
fi
"""
AGENT = ["/bin/sh", "-c", CHOOSE, "agent", bundle.BOOT, bundle.shell_agent()]
PROJECT = "harnesstrain.project"
"""Label of what belongs to one task of several containers."""
OWN = "ht-main"
"""What a compose file finds as the name of the task's own image, where that has none yet."""
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
        """`docker_host`: the engine's address, else Docker's own variables; `build_network`: for RUN instructions,
        else the sandbox's own, if it has one.

        `archives`: directory of images as files, for what the engine lacks.

        Raises Prerequisite when no engine answers, or it would drop limits.
        """
        self.network = network
        self._host = docker_host
        self._client = connect(docker_host)
        self._info = self._client.info()
        cache = cache_dir or user_cache_path("harnesstrain")
        building = build_network or ("host" if network == "host" else None)
        self._images = Images(self._client, cache / LOCKS, building, archives)
        self._settings = Settings(self._client, self._info, network, cache / "pins")
        self._guard = Guard(owner_labels()["harnesstrain.owner"], docker_host)
        self._starts = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._project_starts = threading.BoundedSemaphore(os.cpu_count() or 1)
        """Apart: who waits for services to get ready holds up nobody else."""
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
                *(("proc",) if self._settings.pins_usable else ()),
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
        """Raises Unsupported: network that the sandbox was not given, services without or beyond `docker compose`.

        ConfigError: a Dockerfile or an image's name that no engine takes.
        """
        if environment.context is None and environment.image is None and environment.compose is None:
            raise Unsupported("the task has neither a Dockerfile nor an image")
        if environment.compose is not None and project.client_argv() is None:
            msg = f"the task needs several containers ({environment.compose}), and `docker compose` is not here"
            raise Unsupported(msg, hint="install the compose plugin of Docker")
        self._check_images(environment)
        if environment.network != "none" and self.network == "none":
            raise Unsupported(
                f"the task wants network '{environment.network}' and the sandbox has none",
                hint="`--set sandbox.network=host` allows it",
            )

    def _check_images(self, environment: Environment) -> None:
        own = Service(MAIN, {}, image=environment.image)
        if environment.context is not None:
            own = replace(own, image=None, build=Recipe(environment.context))
        services = [own]
        if environment.compose is not None:
            found = self._composition(environment).services
            services = [own if _is_own(one) else one for one in found.values()]
        for service in services:
            if service.build is not None:
                vetting.read(service.build.context / service.build.dockerfile)
            elif service.image is not None:
                vetting.check_image(service.image)

    def prepare(self, environment: Environment) -> None:
        """Build or pull the image, or those of all services, once."""
        self.check(environment)
        if environment.compose is not None:
            self._service_images(environment, self._composition(environment))
        else:
            self._images.obtain(environment)

    def built(self, environment: Environment) -> int | None:
        """Bytes of the image, the layers that it shares with others included."""
        found = self._images.known(environment)
        return None if found is None else int(found.get("Size") or 0)

    def room(self) -> int | None:
        """Bytes free on the engine's disk, where that is on this machine."""
        root = Path(str(self._info.get("DockerRootDir") or ""))
        same_machine = self._client.api.base_url.startswith("http+docker://")
        return shutil.disk_usage(root).free if same_machine and root.is_absolute() and root.is_dir() else None

    def open(self, environment: Environment, *, limits: Limits | None = None, at: str | None = None) -> DockerSession:
        """Start a container."""
        if at is not None:
            raise SandboxFailure(f"no state is kept under {at[:8]}")
        self.check(environment)
        bounds = limits or Limits()
        if environment.compose is not None:
            return self._open_project(environment, bounds)
        image = self._images.obtain(environment)
        agent = self._start(image["Id"], image.get("Config") or {}, environment, bounds)
        return self._entered(agent, image, environment, bounds)

    def _entered(self, agent: Agent, image: dict[str, Any], environment: Environment, bounds: Limits) -> DockerSession:
        config = image.get("Config") or {}
        session = DockerSession(agent, bounds.output_bytes)
        self._open.add(session)
        session.user = environment.user or config.get("User") or None
        session.enter(environment.workdir, config.get("WorkingDir") or "/")
        return session

    def sealed(self, keys: Sequence[str]) -> str | None:  # noqa: ARG002
        """None: this kind keeps no states."""
        return None

    def sweep(self) -> int:
        """Remove what dead drivers left: containers, networks, volumes."""
        return remove_all(self._client, lambda labels: is_orphan(dict(labels)))

    def close(self) -> None:
        """End every open session."""
        for session in list(self._open):
            session.close()
        self._guard.close()
        self._client.close()

    # --- starting ---

    def _start(self, image: str, config: dict[str, Any], environment: Environment, bounds: Limits) -> Agent:
        entrypoint = config.get("Entrypoint")
        with self._starts, translated("starting a container"):
            container = self._client.api.create_container(
                image,
                command=UNTIL_EOF if entrypoint else None,
                entrypoint=None if entrypoint else AGENT,
                user="0",
                hostname=pins.HOSTNAME,
                stdin_open=True,
                detach=False,
                working_dir="/",
                environment=self._settings.variables(config, environment),
                labels=owner_labels(),
                host_config=self._settings.host_config(environment, bounds),
            )["Id"]
            channel: SocketChannel | None = None
            try:
                streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                attached = self._client.api.attach_socket(container, params=streams)
                channel = SocketChannel(attached, partial(remove_container, self._client, container))
                channel.changed = partial(changed_paths, self._client, container)
                self._client.api.start(container)
                if entrypoint:
                    inner = self._client.api.exec_create(container, AGENT, stdin=True, user="0", workdir="/")
                    channel.switch(self._client.api.exec_start(inner["Id"], socket=True))
                found = Agent(channel)
                found.ready(bundle.message(None), pins.PID_BASE, STARTED_WITHIN, FLOOR_MB)
                return found
            except BaseException:
                channel.close() if channel else ended(partial(remove_container, self._client, container))
                raise

    # --- several containers ---

    def _composition(self, environment: Environment) -> Composition:
        assert environment.compose is not None
        folder = environment.context or environment.files or Path()
        cpus, memory = environment.cpus or 1, memory_mb(environment, Limits())
        image = environment.image or OWN
        names = ("MAIN_IMAGE_NAME", "PREBUILT_IMAGE_NAME")
        values = {**dict.fromkeys(names, image), "CONTEXT_DIR": ".", "CPUS": f"{cpus:g}", "MEMORY": f"{memory}m"}
        return read_composition(folder / environment.compose, {**values, **environment.env})

    def _service_images(self, environment: Environment, composition: Composition) -> dict[str, dict[str, Any]]:
        """What the engine says about the image of every service, built or pulled."""
        found = {}
        for name, service in composition.services.items():
            if service.build is not None:
                found[name] = self._images.built(replace(service.build, timeout=environment.build_timeout))
            elif service.image is not None and not _is_own(service):
                found[name] = self._images.named(service.image)
            else:
                found[name] = self._images.obtain(environment)
        return found

    def _open_project(self, environment: Environment, bounds: Limits) -> DockerSession:
        composition = self._composition(environment)
        images = self._service_images(environment, composition)
        name = f"ht-{os.getpid()}-{secrets.token_hex(4)}"
        made = project.document(
            composition,
            {service: _reference(image) for service, image in images.items()},
            self._settings.main(environment, bounds, images[MAIN].get("Config") or {}),
            self._settings.bounds(environment, bounds, {**owner_labels(), PROJECT: name}),
        )
        channel: SocketChannel | None = None
        end = partial(remove_all, self._client, lambda _: True, f"{PROJECT}={name}")
        with self._project_starts, translated("starting the task's containers"):
            try:
                project.start(name, made, self._guard, self._host, environment.build_timeout)
                chosen = {"label": [f"{PROJECT}={name}", f"{project.SERVICE}={MAIN}"]}
                [container] = self._client.api.containers(filters=chosen) or [None]
                if container is None:
                    raise SandboxFailure("the task's container ended at once", hint="does its command stay?")
                inner = self._client.api.exec_create(container["Id"], AGENT, stdin=True, user="0", workdir="/")
                channel = SocketChannel(self._client.api.exec_start(inner["Id"], socket=True), end)
                channel.changed = partial(changed_paths, self._client, container["Id"])
                agent = Agent(channel)
                agent.ready(bundle.message(None), pins.PID_BASE, STARTED_WITHIN, FLOOR_MB)
            except BaseException:
                channel.close() if channel else ended(end)
                raise
        session = self._entered(agent, images[MAIN], environment, bounds)
        own = composition.services[MAIN].settings
        session.user = environment.user or own.get("user") or session.user
        if environment.workdir is None and own.get("working_dir"):
            session.stand_in(None, own["working_dir"])
        return session


def _is_own(service: Service) -> bool:
    """Whether a service runs the task's own image."""
    return service.build is None and (service.image is None or (service.name == MAIN and service.image == OWN))


def _reference(image: dict[str, Any]) -> str:
    """A name of an image that is there."""
    names: list[str] = [*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ()), image["Id"]]
    return names[0]


class DockerSession(AgentSession):
    """One running container.  Grading happens in it: the base class's `fork` raises Unsupported."""

    def changed(self) -> tuple[str, ...] | None:
        """Paths that the engine says differ from the image."""
        channel = self.agent.channel
        if self._closed or not isinstance(channel, SocketChannel) or channel.changed is None:
            return None
        return channel.changed()
