"""Scripted environments: sandboxes in which nothing runs and everything is counted.

`ScriptedSandbox` keeps no states, so that a continuation has to execute everything again; `KeepingSandbox` keeps the
states it is asked to keep.  `CountedLocal` is the real local sandbox with the same counters.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.sandbox import Capabilities, Fetched, Limits, RunResult, SandboxIdentity
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import GET_LIMIT, FileFault, Sandbox, Session
from harnesstrain.sandbox.local import LocalSandbox
from tests.bench.workload import Shape, observation

TASK, STEPS, OBSERVATION = "BENCH_TASK", "BENCH_STEPS", "BENCH_OBSERVATION"
"""Variables of an environment that say what it prints."""
REWARD = "/reward.txt"
"""How the path of the reward ends, wherever the verifier's directory was taken to."""


@dataclass
class Counted:
    """What a sandbox was made to do."""

    executions: int = 0
    """Actions of harnesses that were executed."""
    grades: int = 0
    """Verifiers that were executed."""
    opened: list[int] = field(default_factory=list)
    """For each environment that was started: the number of actions behind the state it started from."""
    kept: int = 0
    """States that were kept."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, *, executions: int = 0, grades: int = 0, kept: int = 0, opened: int | None = None) -> None:
        """Count.  Thread-safe."""
        with self._lock:
            self.executions += executions
            self.grades += grades
            self.kept += kept
            if opened is not None:
                self.opened.append(opened)


class ScriptedSandbox:
    """Environments whose state is the number of actions so far."""

    keeps = False

    def __init__(self) -> None:
        self.counted = Counted()
        self.turns = itertools.count(1)
        self.states: dict[str, int] = {}

    def capabilities(self) -> Capabilities:
        """It isolates perfectly: nothing runs."""
        return Capabilities(kind="scripted", isolated=True, forks=True, snapshots=self.keeps)

    def identity(self) -> SandboxIdentity:
        """The same in both kinds: they print the same."""
        return SandboxIdentity(kind="scripted", image=digest("scripted"), pins="1")

    def check(self, environment: Environment) -> None:
        """Every environment will do."""

    def prepare(self, environment: Environment) -> None:
        """Nothing is needed."""

    def open(self, environment: Environment, *, limits: Limits | None = None, at: str | None = None) -> ScriptedSession:  # noqa: ARG002
        """Start an environment."""
        if at is not None and at not in self.states:
            raise SandboxFailure(f"no state is kept under {at[:8]}")
        actions = self.states[at] if at is not None else 0
        self.counted.add(opened=actions)
        return ScriptedSession(self, environment.env, actions)

    def sealed(self, keys: Sequence[str]) -> str | None:
        """The first of `keys` that is kept."""
        return next((key for key in keys if key in self.states), None)

    def sweep(self) -> int:
        """Nothing is left behind."""
        return 0

    def close(self) -> None:
        """Nothing is open."""


class KeepingSandbox(ScriptedSandbox):
    """Keeps the states it is asked to keep."""

    keeps = True


class ScriptedSession:
    """One environment.  A fork of it is for grading."""

    def __init__(
        self, sandbox: ScriptedSandbox, env: Mapping[str, str], actions: int, *, grading: bool = False
    ) -> None:
        self.workdir = "/app"
        self._sandbox = sandbox
        self._env = env
        self._shape = Shape(tasks=1, steps=int(env[STEPS]), observation=int(env[OBSERVATION]))
        self._actions = actions
        self._grading = grading

    def run(
        self,
        command: str,
        *,
        cwd: str | None = None,  # noqa: ARG002
        env: Mapping[str, str] | None = None,  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002
        stdin: bytes | None = None,  # noqa: ARG002
        user: str | None = None,  # noqa: ARG002
    ) -> RunResult:
        """An action, or a command of the verifier."""
        if self._grading:
            self._sandbox.counted.add(grades=int("test.sh" in command))
            return RunResult(exit_code=0)
        self._actions += 1
        self._sandbox.counted.add(executions=1)
        shown = observation(self._shape, self._env[TASK], self._actions, next(self._sandbox.turns))
        return RunResult(exit_code=0, stdout=shown.encode(), duration=0.01)

    def read(self, path: str) -> bytes:
        """The reward: every action was taken."""
        if not self._grading or not path.endswith(REWARD):
            raise FileFault("ENOENT", path, "No such file or directory")
        return b"1\n" if self._actions == self._shape.steps else b"0\n"

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Nothing writes here."""
        raise FileFault("EROFS", path, "Read-only file system")

    def put(self, source: Path, target: str) -> None:
        """The verifier's files."""

    def get(self, source: str, target: Path, *, limit: int = GET_LIMIT) -> Fetched:  # noqa: ARG002
        """Nothing is there."""
        raise FileFault("ENOENT", source, "No such file or directory")

    def lay(self, source: Path, target: str) -> None:
        """Nothing lies here."""

    def end_processes(self) -> None:
        """There is none."""

    def fork(self) -> ScriptedSession:
        """A copy to grade in."""
        return ScriptedSession(self._sandbox, self._env, self._actions, grading=True)

    def seal(self, key: str) -> bool:
        """Keep the number of actions, where states are kept."""
        if self._sandbox.keeps:
            self._sandbox.states[key] = self._actions
            self._sandbox.counted.add(kept=1)
        return self._sandbox.keeps

    def state(self) -> str | None:
        """Digest of the number of actions."""
        return digest([self._env[TASK], self._actions]) if self._sandbox.keeps else None

    def changed(self) -> tuple[str, ...] | None:
        """Nobody looks."""
        return None

    def close(self) -> None:
        """Nothing to end."""


class CountedLocal:
    """The local sandbox, counted.  A real Sandbox: everything that is done is done."""

    def __init__(self, *, network: str = "none", cache_dir: Path | None = None) -> None:
        self.counted = Counted()
        self._inner: Sandbox = LocalSandbox(network=network, cache_dir=cache_dir)
        self._behind: dict[str, int] = {}

    def capabilities(self) -> Capabilities:
        """The local sandbox's."""
        return self._inner.capabilities()

    def identity(self) -> SandboxIdentity:
        """The local sandbox's."""
        return self._inner.identity()

    def check(self, environment: Environment) -> None:
        """As the local sandbox does."""
        self._inner.check(environment)

    def prepare(self, environment: Environment) -> None:
        """As the local sandbox does."""
        self._inner.prepare(environment)

    def open(self, environment: Environment, *, limits: Limits | None = None, at: str | None = None) -> CountedSession:
        """Start an environment."""
        behind = self._behind.get(at, 0) if at is not None else 0
        session = self._inner.open(environment, limits=limits, at=at)
        self.counted.add(opened=behind)
        return CountedSession(self, session, behind)

    def sealed(self, keys: Sequence[str]) -> str | None:
        """As the local sandbox says; states of earlier processes are not counted on, for nobody counted them."""
        return self._inner.sealed([key for key in keys if key in self._behind])

    def sweep(self) -> int:
        """As the local sandbox does."""
        return self._inner.sweep()

    def close(self) -> None:
        """Close the local sandbox."""
        self._inner.close()

    def remember(self, key: str, actions: int) -> None:
        """The state `key` has so many actions behind it."""
        self._behind[key] = actions
        self.counted.add(kept=1)


class CountedSession:
    """A session of the local sandbox, counted."""

    def __init__(self, sandbox: CountedLocal, session: Session, actions: int) -> None:
        self.workdir = session.workdir
        self._sandbox = sandbox
        self._session = session
        self._actions = actions

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
        """Count and run."""
        self._count()
        return self._session.run(command, cwd=cwd, env=env, timeout=timeout, stdin=stdin, user=user)

    def read(self, path: str) -> bytes:
        """Count and read."""
        self._count()
        return self._session.read(path)

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Count and write."""
        self._count()
        self._session.write(path, data, mode)

    def put(self, source: Path, target: str) -> None:
        """Put."""
        self._session.put(source, target)

    def get(self, source: str, target: Path, *, limit: int = GET_LIMIT) -> Fetched:
        """Get."""
        return self._session.get(source, target, limit=limit)

    def lay(self, source: Path, target: str) -> None:
        """Lay."""
        self._session.lay(source, target)

    def end_processes(self) -> None:
        """End them."""
        self._session.end_processes()

    def fork(self) -> Session:
        """A fork is graded in: what it runs is no action."""
        self._sandbox.counted.add(grades=1)
        return self._session.fork()

    def seal(self, key: str) -> bool:
        """Keep the state, and remember how many actions are behind it."""
        kept = self._session.seal(key)
        if kept:
            self._sandbox.remember(key, self._actions)
        return kept

    def state(self) -> str | None:
        """The session's."""
        return self._session.state()

    def changed(self) -> tuple[str, ...] | None:
        """The session's."""
        return self._session.changed()

    def close(self) -> None:
        """Close it."""
        self._session.close()

    def _count(self) -> None:
        self._actions += 1
        self._sandbox.counted.add(executions=1)
