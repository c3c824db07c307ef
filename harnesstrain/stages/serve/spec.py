"""What is asked of the stage, and what is going on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.llm.base import EngineSpec
from harnesstrain.llm.server import ServerPlan
from harnesstrain.llm.state import ServerState
from harnesstrain.stages.serve.vouching import Voucher

ENGINE_LOG = "engine.log"
"""Where an engine that runs a program keeps that program's output, in the state directory."""


class Action(StrEnum):
    """What to do."""

    FOREGROUND = "foreground"
    DETACH = "detach"
    STATUS = "status"
    STOP = "stop"


class ServeSpec(Record):
    """What to serve, where, and how."""

    directory: Path
    """Where state file, lock and log go: `.ht` of the project."""
    action: Action = Action.FOREGROUND
    engine: EngineSpec = Field(default_factory=EngineSpec)
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    """0: any free one."""
    max_waiting: int = Field(default=256, ge=0)
    """Requests in the queue beyond those that run."""
    start_timeout: float = Field(default=900.0, gt=0)
    """Seconds until a detached server must answer."""
    voucher: Voucher | None = None
    """Where certificates of the endpoint are; None: nothing is certified."""
    grace: float = Field(default=10.0, ge=0)
    """Seconds between SIGTERM and SIGKILL when it is stopped."""

    def plan(self, *, detached: bool) -> ServerPlan:
        """The part that the server process needs; paths made absolute."""
        engine = self.engine
        changes: dict[str, object] = {}
        if engine.script is not None:
            changes["script"] = engine.script.absolute()
        if engine.model is not None and Path(engine.model).exists():
            changes["model"] = str(Path(engine.model).absolute())
        changes["log"] = (engine.log or self.directory / ENGINE_LOG).absolute()
        return ServerPlan(
            engine=engine.model_copy(update=changes),
            directory=self.directory.absolute(),
            host=self.host,
            port=self.port,
            max_waiting=self.max_waiting,
            detached=detached,
            start_timeout=self.start_timeout,
        )


class Condition(StrEnum):
    """How a model server is."""

    RUNNING = "running"
    UNRESPONSIVE = "unresponsive"
    """Its process lives, but it does not answer."""
    STALE = "stale"
    """It was killed: its state file is there, its process is not."""
    STOPPED = "stopped"
    """There is none."""


class Serving(Record):
    """What is going on."""

    condition: Condition
    url: str | None = None
    """Base URL, ending in /v1."""
    pid: int | None = None
    engine: str | None = None
    endpoint: Endpoint | None = None
    fingerprint: str | None = None
    detached: bool = False
    log: str | None = None
    """Path of the log file; None: the terminal."""
    since: float | None = None
    """Seconds since 1970, for display."""
    already: bool = False
    """It ran before this start."""
    signal: int | None = None
    """Foreground: the signal that ended it."""

    @classmethod
    def of(
        cls,
        state: ServerState | None,
        condition: Condition,
        *,
        already: bool = False,
        signal: int | None = None,
    ) -> Serving:
        """From a state file's content."""
        if state is None:
            return cls(condition=condition, already=already, signal=signal)
        return cls(
            condition=condition,
            url=state.url,
            pid=state.pid,
            engine=state.engine,
            endpoint=state.endpoint,
            fingerprint=state.fingerprint,
            detached=state.detached,
            log=state.log,
            since=state.since,
            already=already,
            signal=signal,
        )
