"""A worker process: `python -P -m harnesstrain.llm.embedded.worker JOBS COUNTS PARENT`.

JOBS and COUNTS are inherited socket descriptors, PARENT the process that started it.  The main thread evaluates one job
at a time.  Other threads take in jobs and aborts and count tokens.  It leaves when the parent does.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from harnesstrain.core.errors import HtError
from harnesstrain.llm.embedded.channel import Channel, Closed, failure
from harnesstrain.llm.embedded.chatml import Prompt
from harnesstrain.llm.embedded.jobs import Job, Setup

if TYPE_CHECKING:
    from harnesstrain.llm.embedded.evaluator import Evaluator

WATCH = 5.0
"""Seconds between looks at the parent, for when a forked sibling holds the socket open."""


class Worker:
    """The process's state: one evaluator, two channels, the set of aborted jobs."""

    def __init__(self, jobs: Channel, counts: Channel, parent: int) -> None:
        self._jobs = jobs
        self._counts = counts
        self._parent = parent
        self._waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._aborted: set[int] = set()

    def run(self) -> None:
        """Load, say so, then serve until the parent is gone."""
        from harnesstrain.llm.embedded.evaluator import Evaluator

        setup = Setup.model_validate(self._jobs.receive())
        self._beside(self._take_in)
        try:
            evaluator = Evaluator(setup)
        except HtError as error:
            self._jobs.send(failure(error))
            return
        self._beside(lambda: self._count(evaluator))
        self._jobs.send({"ready": True})
        while True:
            job = self._waiting.get()
            try:
                done = evaluator.complete(job, aborted=lambda key=job.key: key in self._aborted)  # type: ignore[misc]
            except HtError as error:
                self._jobs.send(failure(error))
            else:
                self._jobs.send({"done": done.model_dump(mode="json")})

    def _take_in(self) -> None:
        """Read jobs and aborts."""
        while True:
            while not self._jobs.ready(WATCH):
                if os.getppid() != self._parent:
                    raise Closed("the parent is gone")
            message = self._jobs.receive()
            if "job" in message:
                self._waiting.put(Job.model_validate(message["job"]))
            else:
                self._aborted.add(message["abort"])

    def _count(self, evaluator: Evaluator) -> None:
        """Answer token counts; may run beside an evaluation."""
        while True:
            prompt = Prompt.model_validate(self._counts.receive())
            try:
                self._counts.send({"count": evaluator.count(prompt)})
            except HtError as error:
                self._counts.send(failure(error))

    def _beside(self, serve: Callable[[], None]) -> None:
        """Run `serve` in a thread; the process ends when it ends, and at once, also in the middle of a decode."""

        def run() -> None:
            try:
                serve()
            except Closed:
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)

        threading.Thread(target=run, daemon=True).start()


def main(arguments: list[str]) -> int:
    """Run a worker on the descriptors named in `arguments`; the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # before numpy and the library load
    jobs, counts, parent = (int(argument) for argument in arguments)
    try:
        Worker(Channel(socket.socket(fileno=jobs)), Channel(socket.socket(fileno=counts)), parent).run()
    except Closed:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
