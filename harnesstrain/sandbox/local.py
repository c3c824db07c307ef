"""`local`: overlay layers and bubblewrap on the host's own system directories.  Linux; no daemon, no image.

A session is one launcher (a private mount namespace with the overlay, its changes in memory) around one agent.  When
the driver goes, the agent's stream ends, the agent ends, and with it everything in the sandbox and every mount.
"""

from __future__ import annotations

import itertools
import math
import os
import secrets
import shutil
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from harnesstrain.core import cgroups, packed
from harnesstrain.core.confinement import PROGRAMS, Confinement, Overlay, bounds_memory, launch_argv, unavailable
from harnesstrain.core.digests import digest, digest_tree
from harnesstrain.core.errors import Prerequisite, SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import Capabilities, Limits, SandboxIdentity
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import bundle, dockerfile, pins, rootfs
from harnesstrain.sandbox.build import copied
from harnesstrain.sandbox.layers import LAYERS, Layers
from harnesstrain.sandbox.local_session import LocalSession
from harnesstrain.sandbox.states import STATES, States
from harnesstrain.sandbox.wire import Agent, PipeChannel

BUILDER = 2
"""Version of how layers are built."""
SANDBOX_UID, SANDBOX_UIDS = 1_500_000_000, 65_536
"""Host users that are the sandbox's own when the driver is root; the first is its root."""
CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETUID", "CAP_SETGID")
"""What root may do inside, as in a container; only to the sandbox's own users and files."""
MEMORY_MB, STORAGE_MB = 2048, 1024
"""Bounds when neither the task nor the regime names any."""
PYTHON = "/usr/bin/python3"
STARTED_WITHIN = 30.0
OWN_PROCESSES = 8
"""Processes of the sandbox itself that count against its limit."""


class LocalSandbox:
    """Sandboxes on this machine's own system directories."""

    def __init__(self, *, network: str = "none", cache_dir: Path | None = None) -> None:
        """`network`: none or host; `cache_dir`: where layers are kept."""
        reason = unavailable()
        if reason:
            raise Prerequisite(f"the local sandbox cannot be used: {reason}", hint="use docker, or install bubblewrap")
        self.network = network
        cache = cache_dir or user_cache_path("harnesstrain")
        self.layers = Layers(cache / LAYERS)
        self.states = States(cache / STATES)
        self.owner = SANDBOX_UID if os.geteuid() == 0 else os.geteuid()
        """Host user that is root in a sandbox."""
        self._newest_first: bool | None = None
        self._starts = threading.BoundedSemaphore(2 * (os.cpu_count() or 1))
        self._turn = itertools.count()
        self._open: weakref.WeakSet[LocalSession] = weakref.WeakSet()

    def capabilities(self) -> Capabilities:
        """What it isolates here."""
        notes = ["a running process does not survive into grading"]
        if not bounds_memory():
            notes.append("memory is bounded per process, not per sandbox (control groups need root)")
        if os.geteuid() != 0:
            notes.append("one user: a Dockerfile's USER other than root is refused")
        return Capabilities(
            kind="local",
            isolated=True,
            network_modes=("none", "host"),
            builds_dockerfile=True,
            forks=True,
            snapshots=bundle.compiled(PYTHON) is not None,
            pins=("environment", "hostname", "user", "aslr", "pids", "proc", "cpus", "times"),
            notes=tuple(notes),
        )

    def identity(self) -> SandboxIdentity:
        """The host's system directories, the pins, the network."""
        return SandboxIdentity(kind="local", image=rootfs.identity(), pins=pins.VERSION, network=self.network)

    def check(self, environment: Environment) -> None:
        """Raises Unsupported, naming what `local` cannot do for `environment`."""
        if environment.compose is not None:
            raise Unsupported(
                f"the local sandbox has one container, and the task needs several ({environment.compose})",
                hint="use `--set sandbox.kind=docker` for this task",
            )
        if environment.network != "none" and self.network == "none":
            raise Unsupported(
                f"the task wants network '{environment.network}' and the sandbox has none",
                hint="`--set sandbox.network=host` allows it",
            )
        self._recipe(environment)

    def prepare(self, environment: Environment) -> None:
        """Build the base and the task's layer, once."""
        self.check(environment)
        self._layers_of(environment)

    def built(self, environment: Environment) -> int | None:
        """Bytes of the task's layer; the base, which all tasks share, is not counted."""
        base = self.layers.find(self._base_key())
        if base is None or environment.context is None or not self._recipe(environment).steps:
            return None if base is None else 0
        layer = self.layers.find(self._layer_key(environment, environment.context))
        return None if layer is None else sum(path.lstat().st_size for path in layer.rglob("*") if path.is_file())

    def room(self) -> int | None:
        """Bytes free on the disk of the layers."""
        root = self.layers.root
        return shutil.disk_usage(next(path for path in (root, *root.parents) if path.is_dir())).free

    def open(self, environment: Environment, *, limits: Limits | None = None, at: str | None = None) -> LocalSession:
        """Start an environment, or go on from the state `at`, exactly as the session that was sealed would."""
        self.check(environment)
        lowers, facts = self._layers_of(environment)
        state = self.states.find(at) if at is not None else None
        if state and state.facts["lowers"] != [lower.parent.name for lower in lowers]:
            self.states.drop(str(at))  # so that a state of this one can be kept in its place
            raise SandboxFailure(f"the state kept under {str(at)[:8]} belongs to another environment")
        bounds = limits or Limits()
        confinement = self._confinement(
            Overlay(
                lowers=tuple(lowers),
                size_mb=environment.storage_mb or bounds.storage_mb or STORAGE_MB,
                start=state.path if state else None,
            ),
            {**facts["env"], **environment.env},
            network=self.network == "host" and environment.network != "none",
            memory_mb=environment.memory_mb or bounds.memory_mb or MEMORY_MB,
            cpus=environment.cpus or bounds.cpus or 1,
            pids=bounds.pids,
        )
        try:
            session = LocalSession(self, confinement, bounds.output_bytes, state.facts["last_pid"] + 1 if state else 0)
        except SandboxFailure:
            if at is not None:
                self.states.drop(at)
            raise
        session.user = environment.user or facts["user"]
        (session.stand_in if state else session.enter)(environment.workdir, facts["workdir"])
        return session

    def sealed(self, keys: Sequence[str]) -> str | None:
        """The first of `keys` whose state is kept."""
        return self.states.first(keys)

    def sweep(self) -> int:
        """Remove unfinished layers and states, and empty control groups, of dead drivers."""
        return self.layers.sweep() + self.states.sweep() + (cgroups.sweep() if os.geteuid() == 0 else 0)

    def close(self) -> None:
        """End every open session."""
        for session in list(self._open):
            session.close()

    def names_newest_first(self, stage: Path) -> bool:
        """Whether memory lists the name that was made last first; `stage`: a session's, where it is tried once."""
        if self._newest_first is None:
            scratch = stage / f"order-{secrets.token_hex(4)}"
            scratch.mkdir()
            self._newest_first = packed.newest_first(str(scratch))
            scratch.rmdir()
        return self._newest_first

    # --- layers ---

    def _recipe(self, environment: Environment) -> dockerfile.Recipe:
        if environment.image is not None and environment.context is None:
            raise Unsupported(
                f"the local sandbox has no image '{environment.image}'",
                hint="use `--set sandbox.kind=docker` for this task",
            )
        if environment.context is None:
            return dockerfile.Recipe((), "/", {}, "")
        recipe = dockerfile.parse(environment.context, {**pins.ENVIRONMENT, "PATH": PROGRAMS})
        if os.geteuid() != 0:
            dockerfile.only_root(recipe, environment.user)
        dockerfile.only_writable(recipe, rootfs.read_only)
        return recipe

    def _layers_of(self, environment: Environment) -> tuple[list[Path], dict[str, Any]]:
        base = self.layers.obtain(self._base_key(), self._build_base) / "fs"
        recipe = self._recipe(environment)
        facts = {"workdir": recipe.workdir, "env": dict(recipe.env), "user": recipe.user}
        if environment.context is None or not recipe.steps:
            return [base], facts
        key = self._layer_key(environment, environment.context)
        layer = self.layers.obtain(key, lambda part: self._build(part, base, recipe, environment))
        return [layer / "fs", base], facts

    def _base_key(self) -> str:
        return digest([rootfs.identity(), self.owner])

    def _layer_key(self, environment: Environment, context: Path) -> str:
        content = environment.digest or digest_tree(context)
        return digest([self._base_key(), content, pins.VERSION, BUILDER, self.network])

    def _build_base(self, part: Path) -> dict[str, Any]:
        rootfs.generate(part / "fs")
        if os.geteuid() == 0:
            rootfs.hand_over(part / "fs", self.owner)
        return {"kind": "base"}

    def _build(self, part: Path, base: Path, recipe: dockerfile.Recipe, environment: Environment) -> dict[str, Any]:
        assert environment.context is not None
        confinement = self._confinement(
            Overlay(lowers=(base,), upper=part), {}, network=self.network == "host", memory_mb=4096, cpus=1, pids=1024
        )
        session = LocalSession(self, confinement, 20_000)
        try:
            for step in recipe.steps:
                self._build_step(session, step, environment)
        finally:
            session.close()
        return {"kind": "task"}

    def _build_step(self, session: LocalSession, step: dockerfile.Step, environment: Environment) -> None:
        if step.kind == "WORKDIR":
            session.agent.put(step.target, (), replace=False)
        elif step.kind == "COPY":
            assert environment.context is not None
            for folder, entries in copied(environment.context, step, session.is_directory):
                session.agent.put(folder, entries, replace=False)
        else:
            timeout = environment.build_timeout
            result = session.run(step.command, cwd=step.workdir, env=step.env, timeout=timeout, user=step.user)
            dockerfile.succeeded(step, result)

    # --- starting ---

    def _confinement(
        self, root: Overlay, env: Mapping[str, str], *, network: bool, memory_mb: int, cpus: float, pids: int
    ) -> Confinement:
        usable = sorted(os.sched_getaffinity(0))
        count = min(math.ceil(cpus), len(usable))
        first = next(self._turn) * count
        python = bundle.compiled(PYTHON) is not None
        together = bounds_memory()
        in_memory = root.size_mb if root.upper is None else 0
        return Confinement(
            command=(PYTHON, "-I", "-S", "-c", bundle.BOOT) if python else ("/bin/sh", "-c", bundle.shell_agent()),
            env={**pins.ENVIRONMENT, "PATH": PROGRAMS, **env},
            network=network,
            tmpfs=(),
            files={**pins.proc_files(count, memory_mb), **pins.cpu_files(count), **_resolver(network)},
            hostname=pins.HOSTNAME,
            memory_mb=memory_mb + in_memory if together else memory_mb,
            pids=pids + OWN_PROCESSES,
            cpus=None if cpus == count else min(cpus, count),
            cpu_list=tuple(usable[(first + number) % len(usable)] for number in range(count)),
            uid=self.owner,
            inner_uid=0,
            uids=SANDBOX_UIDS,
            capabilities=CAPABILITIES,
            as_pid_1=True,
            root=root,
        )

    def start(self, confinement: Confinement, first_pid: int = 0) -> Agent:
        """Start an agent in `confinement`.  `first_pid`: of its first command; 0: what follows the agent's own.

        Raises SandboxFailure.
        """
        with self._starts:
            try:
                process = subprocess.Popen(
                    launch_argv(confinement),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                )
            except OSError as error:
                raise SandboxFailure(f"the sandbox could not be started: {error}") from error
            agent = Agent(PipeChannel(process))
            try:
                agent.ready(bundle.message(PYTHON), first_pid, STARTED_WITHIN)
            except BaseException:
                agent.close()
                raise
            return agent


def _resolver(network: bool) -> dict[str, str]:
    path = Path("/etc/resolv.conf")
    return {str(path): path.read_text()} if network and path.is_file() else {}
