"""A session on top of an agent: paths, the task's user and working directory, sealing."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path

from harnesstrain.core.errors import SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import Fetched, RunResult
from harnesstrain.sandbox import tree
from harnesstrain.sandbox.base import GET_LIMIT, FileFault
from harnesstrain.sandbox.landing import Landing
from harnesstrain.sandbox.wire import Agent


class AgentSession:
    """What `local`, `docker` and `process` sessions have in common.  Implements `Session`."""

    def __init__(self, agent: Agent, output_bytes: int) -> None:
        self.agent = agent
        self.output_bytes = output_bytes
        self.workdir = "/"
        self.user: str | None = None
        self.sealed = False
        self._closed = False

    def stand_in(self, wanted: str | None, own: str) -> None:
        """Set the working directory: the task's, else the image's own.  It may be missing."""
        self.workdir = posixpath.normpath(posixpath.join("/", wanted or own))

    def enter(self, wanted: str | None, own: str) -> None:
        """Set the working directory: the task's, made if missing, else the image's own.

        Raises SandboxFailure, the session closed, when it cannot be made.
        """
        self.stand_in(wanted, own)
        try:
            if self.workdir != "/":
                self.agent.put(self.workdir, (), replace=False)
        except FileFault as fault:
            self.close()
            raise SandboxFailure(f"the working directory cannot be made: {fault.message}") from fault
        except BaseException:
            self.close()
            raise

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
        """Run a shell command to its end.  Raises SandboxFailure only."""
        self._writable()
        return self.agent.run(
            command,
            cwd=self.path(cwd or self.workdir),
            user=user or self.user or "",
            env=env,
            timeout=timeout,
            stdin=stdin,
            cap=self.output_bytes,
        )

    def read(self, path: str) -> bytes:
        """A regular file.  Raises FileFault."""
        return self.agent.read(self.path(path), self.user or "")

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a regular file and its missing parents.  Raises FileFault."""
        self._writable()
        self.agent.write(self.path(path), data, mode, self.user or "")

    def put(self, source: Path, target: str) -> None:
        """Upload the directory `source` as `target`, discarding what was there.  Raises FileFault, ConfigError."""
        self._writable()
        if ".." in Path(target).parts or not Path(target).is_absolute() or len(Path(target).parts) < 2:
            raise FileFault("EINVAL", target, "not an absolute path below the root")
        self.agent.put(target, tree.entries(source))

    def lay(self, source: Path, target: str) -> None:
        """Upload what `source` holds into the directory `target`.  Raises FileFault, ConfigError."""
        self._writable()
        self.agent.put(self.path(target), tree.entries(source), replace=False)

    def get(self, source: str, target: Path, *, limit: int = GET_LIMIT) -> Fetched:
        """Download the directory or file `source` as `target`, which must not exist.  Raises FileFault."""
        landing = Landing(target)
        try:
            self.agent.get(self.path(source), limit, landing)
        except BaseException:
            landing.abandon()
            raise
        return landing.finish()

    def end_processes(self) -> None:
        """Kill every process that commands left running.  Raises SandboxFailure when some cannot be killed."""
        self._writable()
        left = self.agent.kill()
        if left:
            raise SandboxFailure(f"{left} processes of the sandbox cannot be killed")

    def fork(self) -> AgentSession:
        """Raises Unsupported: only sandboxes with layers can."""
        raise Unsupported("this sandbox cannot fork", hint="grade in the sandbox itself")

    def seal(self, key: str) -> bool:  # noqa: ARG002
        """False: only sandboxes with layers can keep a state."""
        return False

    def state(self) -> str | None:
        """None: only sandboxes with layers know what differs."""
        return None

    def changed(self) -> tuple[str, ...] | None:
        """None: only sandboxes with layers, and engines, can tell from outside."""
        return None

    def close(self) -> None:
        """End everything in it.  Safe to call twice."""
        if not self._closed:
            self._closed = True
            self.agent.close()

    def path(self, path: str) -> str:
        """An absolute path of the sandbox, from one relative to the working directory."""
        return posixpath.join(self.workdir, path)

    def _writable(self) -> None:
        if self._closed:
            raise SandboxFailure("the sandbox session is closed")
        if self.sealed:
            raise SandboxFailure("the sandbox session is sealed: a fork of it is being graded")
