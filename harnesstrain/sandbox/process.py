"""`process`: the agent in a temporary directory of the host.  Not isolated: for development, and for macOS.

Commands run as the user who runs the driver and see the host's files, network and processes.  The task's own top-level
directories (/app, /tests, /logs…) are moved into the temporary directory: their names are replaced in commands, in
paths and in the text files of a task.  What a command prints is left alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harnesstrain.core.confinement import PROGRAMS
from harnesstrain.core.digests import digest
from harnesstrain.core.errors import SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import Capabilities, Limits, RunResult, SandboxIdentity
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import bundle, dockerfile, pins, rootfs, tree
from harnesstrain.sandbox.base import FileFault
from harnesstrain.sandbox.build import copied
from harnesstrain.sandbox.session import AgentSession
from harnesstrain.sandbox.tree import Entry
from harnesstrain.sandbox.wire import Agent, PipeChannel

ALWAYS_MOVED = ("app", "tests", "logs", "solution")
"""Top-level directories that belong to a task, not to the host."""
PREFIX = "ht-process-"
STARTED_WITHIN = 30.0


class ProcessSandbox:
    """Plain processes in temporary directories."""

    def __init__(self, *, network: str = "host") -> None:
        """The network is the host's whatever `network` says; the identity says so."""
        self._starts = threading.BoundedSemaphore(2 * (os.cpu_count() or 1))
        self._open: weakref.WeakSet[ProcessSession] = weakref.WeakSet()

    def capabilities(self) -> Capabilities:
        """Nothing is isolated."""
        return Capabilities(
            kind="process",
            isolated=False,
            network_modes=("host",),
            builds_dockerfile=True,
            forks=False,
            pins=("environment",),
            notes=("not isolated: commands see and may change this machine",),
        )

    def identity(self) -> SandboxIdentity:
        """The host's system directories, the pins, the host's network."""
        image = rootfs.identity() if sys.platform == "linux" else digest([sys.platform, os.uname().release])
        return SandboxIdentity(kind="process", image=image, pins=pins.VERSION, network="host")

    def check(self, environment: Environment) -> None:
        """Raises Unsupported: a ready image, an instruction that is not built, another user."""
        self._recipe(environment)

    def prepare(self, environment: Environment) -> None:
        """Nothing can be kept between sessions; only checks."""
        self.check(environment)

    def open(self, environment: Environment, *, limits: Limits | None = None, at: str | None = None) -> ProcessSession:
        """Build the environment in a fresh temporary directory and start in it."""
        if at is not None:
            raise SandboxFailure(f"no state is kept under {at[:8]}")
        recipe = self._recipe(environment)
        session = ProcessSession(self, recipe, environment, (limits or Limits()).output_bytes)
        try:
            session.enter(environment.workdir, recipe.workdir)
            for step in recipe.steps:
                session.build(step, environment)
        except BaseException:
            session.close()
            raise
        return session

    def sealed(self, keys: Sequence[str]) -> str | None:  # noqa: ARG002
        """None: this kind keeps no states."""
        return None

    def sweep(self) -> int:
        """Remove temporary directories of dead drivers."""
        swept = 0
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            pid = folder.name[len(PREFIX) :].partition("-")[0]
            if pid.isdigit() and not _alive(int(pid)) and folder.stat().st_uid == os.geteuid():
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
        return swept

    def close(self) -> None:
        """End every open session."""
        for session in list(self._open):
            session.close()

    def _recipe(self, environment: Environment) -> dockerfile.Recipe:
        if environment.context is None:
            if environment.image is not None:
                raise Unsupported(f"the process sandbox has no image '{environment.image}'", hint="use docker")
            return dockerfile.Recipe((), "/app", {}, "")
        recipe = dockerfile.parse(environment.context, {**pins.ENVIRONMENT, "PATH": PROGRAMS}, kind="process")
        dockerfile.only_root(recipe, environment.user, kind="process")
        return recipe

    def start(self, folder: Path, env: Mapping[str, str]) -> Agent:
        """Start an agent in `folder`.  Raises SandboxFailure."""
        with self._starts:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", bundle.BOOT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    cwd=folder,
                    env=dict(env),
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxFailure(f"the process sandbox could not be started: {error}") from error
            agent = Agent(PipeChannel(process))
            try:
                agent.ready(bundle.message(sys.executable), 0, STARTED_WITHIN)
            except BaseException:
                agent.close()
                raise
            return agent


class ProcessSession(AgentSession):
    """One temporary directory."""

    def __init__(
        self, sandbox: ProcessSandbox, recipe: dockerfile.Recipe, environment: Environment, output_bytes: int
    ) -> None:
        self.root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")).resolve()
        places = [environment.workdir or "", recipe.workdir, *(step.target for step in recipe.steps)]
        own = {place.strip("/").split("/")[0] for place in places} | set(ALWAYS_MOVED)
        moved = sorted(name for name in own if name and (name in ALWAYS_MOVED or not Path("/", name).exists()))
        self._moved = re.compile(rf"(?<![\w./-])/({'|'.join(map(re.escape, moved))})(?![\w.-])")
        home = self.root / "root"
        home.mkdir()
        env = {**pins.ENVIRONMENT, "PATH": PROGRAMS, **recipe.env, **environment.env, "HOME": str(home)}
        try:
            super().__init__(sandbox.start(self.root, env), output_bytes)
            self.agent.own(str(self.root))
        except BaseException:
            shutil.rmtree(self.root, ignore_errors=True)
            raise
        sandbox._open.add(self)

    def here(self, text: str) -> str:
        """`text` with the task's own directories moved into the temporary one."""
        return self._moved.sub(rf"{self.root}/\1", text)

    def path(self, path: str) -> str:
        """An absolute path of the host."""
        return self.here(super().path(path))

    def run(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        user: str | None = None,
    ) -> RunResult:
        """Run a shell command as the driver's own user."""
        self._writable()
        return self.agent.run(
            self.here(command),
            cwd=self.path(cwd or self.workdir),
            env={name: self.here(value) for name, value in (env or {}).items()},
            timeout=timeout,
            stdin=stdin,
            cap=self.output_bytes,
        )

    def read(self, path: str) -> bytes:
        """A regular file.  Raises FileFault."""
        return self.agent.read(self.path(path))

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a regular file and its missing parents.  Raises FileFault."""
        self._writable()
        self.agent.write(self.path(path), data, mode)

    def put(self, source: Path, target: str) -> None:
        """Upload a directory; the task's directories are moved in its text files.  Raises FileFault, ConfigError."""
        self._writable()
        absolute = Path(target).is_absolute() and ".." not in Path(target).parts
        if not absolute or not self.here(target).startswith(f"{self.root}/"):
            raise FileFault("EINVAL", target, "not a directory of the task's own")
        self.agent.put(self.here(target), [self._rewritten(entry) for entry in tree.entries(source)])

    def enter(self, wanted: str | None, own: str) -> None:
        """Set the working directory, made if missing."""
        self.workdir = wanted or own
        if not self.here(self.workdir).startswith(f"{self.root}/"):
            self.workdir = str(self.root / "app")
        self.agent.put(self.path(self.workdir), (), replace=False)

    def build(self, step: dockerfile.Step, environment: Environment) -> None:
        """One instruction of the Dockerfile.  Raises SandboxFailure when it fails."""
        if step.kind == "WORKDIR":
            self.agent.put(self.here(step.target), (), replace=False)
        elif step.kind == "COPY":
            assert environment.context is not None
            for folder, entries in copied(environment.context, step, lambda path: Path(self.here(path)).is_dir()):
                self.agent.put(self.here(folder), [self._rewritten(entry) for entry in entries], replace=False)
        else:
            dockerfile.succeeded(
                step, self.run(step.command, cwd=step.workdir, env=step.env, timeout=environment.build_timeout)
            )

    def close(self) -> None:
        """End every process and remove the directory."""
        if not self._closed:
            super().close()
            shutil.rmtree(self.root, ignore_errors=True)

    def _rewritten(self, entry: Entry) -> Entry:
        try:
            text = entry.data.decode()
        except UnicodeDecodeError:
            return entry
        return replace(entry, data=self.here(text).encode())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
