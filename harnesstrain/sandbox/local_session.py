"""A session of the local sandbox: its changes lie in memory, in the launcher's mount namespace."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING

from harnesstrain.core import packed
from harnesstrain.core.confinement import Confinement
from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.sandbox.difference import difference
from harnesstrain.sandbox.session import AgentSession
from harnesstrain.sandbox.states import MAX_BYTES, MAX_ENTRIES
from harnesstrain.sandbox.wire import PipeChannel

if TYPE_CHECKING:
    from harnesstrain.sandbox.local import LocalSandbox

KILLED = 137


class LocalSession(AgentSession):
    """One running local environment."""

    def __init__(self, sandbox: LocalSandbox, confinement: Confinement, output_bytes: int, first_pid: int = 0) -> None:
        """`first_pid`: process id of the first command; 0: what follows the agent's own."""
        self._sandbox = sandbox
        self._confinement = confinement
        agent = sandbox.start(confinement, first_pid)
        super().__init__(agent, output_bytes)
        channel = agent.channel
        assert isinstance(channel, PipeChannel)
        self.launcher = channel.process.pid
        """Host process id of the launcher, whose mount namespace holds the changes."""
        self._ended_itself = True
        self._stage: Path | None = None
        sandbox._open.add(self)

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
        result = super().run(command, cwd=cwd, env=env, timeout=timeout, stdin=stdin, user=user)
        self._ended_itself = not result.timed_out and result.exit_code != KILLED
        return result

    def is_directory(self, path: str) -> bool:
        """Whether `path` is a directory, or a link to one."""
        return self.run(f"test -d {shlex.quote(path)}").exit_code == 0

    def fork(self) -> LocalSession:
        """A copy of this state in a fresh sandbox; nothing is copied.  This session is sealed: it can only be read.

        A fork holds files only: processes that still run are ended first.
        """
        if self._closed:
            raise SandboxFailure("the sandbox session is closed")
        root = self._confinement.root
        assert root is not None
        self.agent.kill()
        heir = replace(root, upper=None, start=None, heir_of=self.launcher)
        self.sealed = True
        fork = LocalSession(self._sandbox, replace(self._confinement, root=heir), self.output_bytes)
        fork.workdir, fork.user = self.workdir, self.user
        return fork

    def seal(self, key: str) -> bool:
        """Keep a copy of the changes under `key`; the session goes on.

        False when that would not be the whole state (a process lives, System V memory exists, the last command was
        killed, this is a fork), when it holds sockets, or when it is too large.
        """
        if self._closed:
            raise SandboxFailure("the sandbox session is closed")
        root = self._confinement.root
        assert root is not None
        if root.heir_of or not self._ended_itself:
            return False
        if self._sandbox.states.first([key]):
            return True  # it was sound when it was kept
        with self.agent.held():
            last_pid = self.agent.settled()
            if last_pid is None:
                return False
            facts = {"last_pid": last_pid, "lowers": [lower.parent.name for lower in root.lowers]}
            return self._sandbox.states.keep(key, lambda out: self._pack(out, facts))

    def _pack(self, out: BufferedWriter, facts: dict[str, object]) -> None:
        order = self._sandbox.names_newest_first(self.stage)
        folder = os.open(self.stage / "changes/fs", packed.FOLDER)
        try:
            packed.pack(folder, out, facts, newest_first=order, max_bytes=MAX_BYTES, max_entries=MAX_ENTRIES)
        finally:
            os.close(folder)

    def state(self) -> str | None:
        """Digest of every file that differs from the environment's own.

        None for a fork, or where a file cannot be read.
        """
        if self._closed:
            raise SandboxFailure("the sandbox session is closed")
        root = self._confinement.root
        assert root is not None
        if root.heir_of:
            return None
        try:
            return difference(self.stage / "changes/fs", root.lowers, self._sandbox.owner)
        except OSError:
            return None

    def changed(self) -> tuple[str, ...] | None:
        """Paths of everything that the changes hold.  None for a fork, or where they cannot be seen."""
        root = self._confinement.root
        if self._closed or root is None or root.heir_of:
            return None
        try:
            changes = self.stage / "changes/fs"
            paths: list[str] = []
            for folder, folders, files in os.walk(changes, onerror=_raised):
                place = Path("/", Path(folder).relative_to(changes)).as_posix().rstrip("/")
                paths += [f"{place}/{name}" for name in (*folders, *files)]
        except OSError:
            return None
        return tuple(paths)

    @property
    def stage(self) -> Path:
        """Where this process sees the directory of the launcher's mounts.  Raises OSError."""
        if self._stage is None:
            place = Path(f"/proc/{self.launcher}")
            targets = [line.split(" ", 5)[4] for line in (place / "mountinfo").read_text().splitlines()]
            changes = [target for target in targets if target.endswith("/g0/changes")]
            if len(changes) != 1:
                raise OSError(f"process {self.launcher} shows no changes")
            self._stage = place / "root" / Path(changes[0]).parent.relative_to("/")
        return self._stage


def _raised(error: OSError) -> None:
    raise error
