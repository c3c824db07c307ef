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

from harnesstrain.core.errors import HtError
from harnesstrain.llm.embedded.channel import Channel, Closed, failure
from harnesstrain.llm.embedded.chatml import Prompt
from harnesstrain.llm.embedded.evaluator import Evaluator
from harnesstrain.llm.embedded.jobs import Job, Setup

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
        setup = Setup.model_validate(self._jobs.receive())
        threading.Thread(target=self._take_in, daemon=True).start()
        try:
            evaluator = Evaluator(setup)
        except HtError as error:
            self._jobs.send(failure(error))
            return
        threading.Thread(target=self._count, args=(evaluator,), daemon=True).start()
        self._jobs.send({"ready": True})
        while True:
            job = self._waiting.get()
            try:
                done = evaluator.complete(job, aborted=lambda key=job.key: key in self._aborted)  # type: ignore[misc]
            except HtError as error:
                self._jobs.send(failure(error))
            else:
                self._jobs.send({"done": done.model_dump(mode="json")})
            self._aborted.discard(job.key)

    def _take_in(self) -> None:
        """Read jobs and aborts; leave at the end of the stream."""
        try:
            while True:
                while not self._jobs.ready(WATCH):
                    if os.getppid() != self._parent:
                        os._exit(0)
                message = self._jobs.receive()
                if "job" in message:
                    self._waiting.put(Job.model_validate(message["job"]))
                else:
                    self._aborted.add(message["abort"])
        except Closed:
            os._exit(0)

    def _count(self, evaluator: Evaluator) -> None:
        """Answer token counts; may run beside an evaluation."""
        try:
            while True:
                prompt = Prompt.model_validate(self._counts.receive())
                try:
                    self._counts.send({"count": evaluator.count(prompt)})
                except HtError as error:
                    self._counts.send(failure(error))
        except Closed:
            os._exit(0)


def main(arguments: list[str]) -> int:
    """Run a worker on the descriptors named in `arguments`; the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jobs, counts, parent = (int(argument) for argument in arguments)
    try:
        Worker(Channel(socket.socket(fileno=jobs)), Channel(socket.socket(fileno=counts)), parent).run()
    except Closed:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
