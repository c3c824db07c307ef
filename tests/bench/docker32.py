"""docker32: 32 rollouts at once in Docker: where the time goes, and that nothing stays.

The figure is what driver and harnesses take of the processor for a step, all starts and grades included.  The model
follows a script; every task has a container of its own.  Wall time is added up over all rollouts: waiting for a turn to
start is part of starting, as many start at once as there are processors.  Afterwards containers, processes, files and
threads are counted again.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import psutil

from harnesstrain.measure import driver
from harnesstrain.rollout import grading
from harnesstrain.sandbox.docker import DockerSandbox, engine_answers
from harnesstrain.sandbox.session import AgentSession
from harnesstrain.sandbox.wire import Agent
from tests.bench.p4_live_step import GLANCING
from tests.bench.result import Result
from tests.bench.scale import Scale
from tests.bench.workbench import Workbench
from tests.bench.workload import Shape

ID = "docker32"
TARGET = 10.0
UNIT = "ms CPU"
AT_ONCE = 32
CLIENT_KEEPS = {"files": 10}
"""Idle connections of the Docker client."""
WHOLE = "whole"
PARTS = (
    (driver, "attempt", WHOLE),
    (DockerSandbox, "open", "start"),
    (Agent, "run", "steps"),
    (grading, "grade", "verify"),
    (AgentSession, "close", "end"),
)


class Clock:
    """Seconds by the clock that all threads together spend in parts of a rollout."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        self._inside = threading.local()
        self._restore: list[Callable[[], None]] = []

    def time(self, owner: Any, name: str, part: str) -> None:
        """Count calls of `owner.name` as `part`, unless they happen within another part."""
        inner = getattr(owner, name)

        def timed(*args: Any, **more: Any) -> Any:
            if part != WHOLE and getattr(self._inside, "part", None):
                return inner(*args, **more)
            self._inside.part = part if part != WHOLE else None
            begun = time.monotonic()
            try:
                return inner(*args, **more)
            finally:
                self._inside.part = None
                with self._lock:
                    self.seconds[part] += time.monotonic() - begun

        setattr(owner, name, timed)
        self._restore.append(lambda: setattr(owner, name, inner))

    def stop(self) -> None:
        """Count no more."""
        for restore in self._restore:
            restore()


def measure(scale: Scale) -> Result:
    """Milliseconds a step of driver and harnesses."""
    host = os.environ.get("HT_TEST_DOCKER") or os.environ.get("DOCKER_HOST") or None
    why = engine_answers(host)
    if why is not None:
        return Result.unmeasured(ID, TARGET, UNIT, f"no Docker engine: {why}")
    if host is not None:
        os.environ["DOCKER_HOST"] = host
    environ = {name: os.environ[name] for name in ("DOCKER_HOST", "HOME") if name in os.environ}
    tasks = min(AT_ONCE, scale.tasks)
    shape = Shape(tasks, max(2, scale.steps // 5))
    clock = Clock()
    with Workbench(
        shape, sandbox="docker", engine=GLANCING, jobs=tasks, environ={**environ, "HT_CACHE": "off"}
    ) as bench:
        bench.evaluate()  # builds the images
        before = _there(bench)
        for owner, name, part in PARTS:
            clock.time(owner, name, part)
        try:
            measured = bench.evaluate(fresh="again")
        finally:
            clock.stop()
        after = _there(bench)
        more = {name: after[name] - before[name] - CLIENT_KEEPS.get(name, 0) for name in after}
        left = {name: count for name, count in more.items() if count > 0}
    each = {part: seconds / tasks for part, seconds in clock.seconds.items()}
    framework = each[WHOLE] - sum(each[part] for _, _, part in PARTS[1:])
    own, others = measured.share(measured.spent.own), measured.share(measured.spent.others)
    detail = (
        f"{tasks} rollouts at once, {measured.steps} steps, {measured.spent.wall:.1f} s by the clock; of the "
        f"{each[WHOLE]:.2f} s of a rollout {each['start']:.2f} s are its start, {each['steps']:.2f} s its commands, "
        f"{each['verify']:.2f} s the verifier, {each['end']:.2f} s the container's end, {framework:.2f} s harness, "
        f"model and framework; driver {own:.2f} ms and harness {others:.2f} ms of the processor a step; left behind: "
        f"{', '.join(f'{count} {name}' for name, count in left.items()) or 'nothing'}"
    )
    return Result.at_most(ID, own + others, TARGET, UNIT, detail, also=not left)


def _there(bench: Workbench) -> dict[str, int]:
    """What a rollout could leave: containers, child processes, open files, threads."""
    gc.collect()
    client = bench.trainer.context.devices.bench.sandbox._client  # type: ignore[attr-defined]
    deadline = time.monotonic() + 10  # the engine removes a container after its last process ended
    while client.api.containers(all=True, filters={"label": "harnesstrain.owner"}) and time.monotonic() < deadline:
        time.sleep(0.1)
    process = psutil.Process()
    return {
        "containers": len(client.api.containers(all=True, filters={"label": "harnesstrain.owner"})),
        "processes": len(process.children(recursive=True)),
        "files": process.num_fds(),
        "threads": threading.active_count(),
    }
