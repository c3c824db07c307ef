"""The worker processes and the requests waiting for them.

One attendant thread per worker starts its process when there is work, hands it one request at a time, and starts it
anew when it dies.  A request whose worker died is tried once more; then it fails.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import threading
from concurrent.futures import Future

from harnesstrain.core.errors import TransportFailure
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.llm import Sampling
from harnesstrain.llm.embedded.chatml import Prompt
from harnesstrain.llm.embedded.jobs import Completion, Job, Setup
from harnesstrain.llm.embedded.process import STOP_POLL, Died, WorkerProcess
from harnesstrain.llm.embedded.routing import Desk, Ticket

TRIES = 2
"""Processes a request may see die before it fails."""

ABORTED = Completion(
    text="", tokens=(), logprobs=None, finish="abort", prompt_tokens=0, reused=0, seconds=0.0, dropped=()
)
"""What a request gets that was stopped before it began."""


class Pool:
    """A fixed number of workers, started when first needed.  Thread-safe."""

    def __init__(self, setup: Setup, workers: int) -> None:
        self._setup = setup
        self._desk = Desk(workers)
        self._news = threading.Condition()
        self._keys = itertools.count(1)
        self._futures: dict[int, Future[Completion]] = {}
        self._processes: list[WorkerProcess | None] = [None] * workers
        self._starting = [threading.Lock() for _ in range(workers)]
        self._closed = False
        self._attendants = [
            threading.Thread(target=self._attend, args=(number,), name=f"embedded-{number}", daemon=True)
            for number in range(workers)
        ]
        for attendant in self._attendants:
            attendant.start()
        atexit.register(self.close)

    def complete(
        self,
        prompt: Prompt,
        sampling: Sampling,
        *,
        logprobs: bool = False,
        cold: bool = False,
        stop: StopSignal | None = None,
    ) -> Completion:
        """Compute a completion; blocks until it is done, or until shortly after `stop` is set.

        `cold`: the worker that computes it gives up what it kept first.

        Raises ContextOverflow, Prerequisite, UsageError, TransportFailure or another LlmFailure.
        """
        job = Job(key=next(self._keys), prompt=prompt, sampling=sampling, logprobs=logprobs, cold=cold)
        ticket = Ticket(job, stop)
        future: Future[Completion] = Future()
        with self._news:
            self._refuse_if_closed()
            self._futures[ticket.job.key] = future
            self._desk.add(ticket)
            self._news.notify_all()
        if stop is not None:
            self._wait(ticket, future, stop)
        return future.result()

    def count(self, prompt: Prompt) -> int:
        """Tokens of a prompt; does not wait for running completions.  Raises like `complete`."""
        for _ in range(TRIES):
            self._refuse_if_closed()
            running = [number for number, process in enumerate(self._processes) if process and process.alive()]
            process = None
            try:
                process = self._started(running[0] if running else 0)
                return process.count(prompt)
            except Died as death:
                last = death
                if process is not None:
                    process.kill()
        raise TransportFailure(f"the embedded engine failed: {last}", hint="`ht doctor`")

    def pids(self) -> list[int]:
        """Process ids of the running workers."""
        return [process.pid for process in self._processes if process and process.alive()]

    def close(self) -> None:
        """End every worker.  Waiting and running requests fail with TransportFailure."""
        with self._news:
            if self._closed:
                return
            self._closed = True
            waiting = self._desk.drain()
            self._news.notify_all()
        for ticket in waiting:
            self._settle(ticket, TransportFailure("the embedded engine was closed"))
        for number, lock in enumerate(self._starting):
            with lock:
                process, self._processes[number] = self._processes[number], None
                if process:
                    process.kill()
        for attendant in self._attendants:
            attendant.join()
        atexit.unregister(self.close)

    def _attend(self, number: int) -> None:
        """The life of one attendant."""
        while True:
            with self._news:
                while (ticket := None if self._closed else self._desk.take(number)) is None:
                    if self._closed:
                        return
                    self._news.wait()
            dropped: tuple[int, ...] = ()
            try:
                outcome: Completion | BaseException = self._run(number, ticket)
            except BaseException as error:  # handed to the caller who waits for it
                outcome = error
            else:
                dropped = outcome.dropped if isinstance(outcome, Completion) else ()
            with self._news:
                self._desk.finish(number, dropped)
                self._news.notify_all()
            self._settle(ticket, outcome)

    def _run(self, number: int, ticket: Ticket) -> Completion:
        """Have a request computed by worker `number`, on a second process if the first dies."""
        for _ in range(TRIES):
            try:
                return self._started(number).complete(ticket.job, ticket.stop)
            except Died as death:
                last = death
        hint = "`ht doctor`; when memory is short, lower --max-running or the context length"
        raise TransportFailure(f"the embedded engine failed twice: {last}", hint=hint)

    def _started(self, number: int) -> WorkerProcess:
        """The running process of worker `number`, started when it is not there."""
        with self._starting[number]:
            self._refuse_if_closed()
            process = self._processes[number]
            if process is None or not process.alive():
                if process is not None:
                    process.kill()
                process = self._processes[number] = WorkerProcess(self._setup)
                with self._news:
                    self._desk.reset(number)
            return process

    def _wait(self, ticket: Ticket, future: Future[Completion], stop: StopSignal) -> None:
        """Wait for a result; a request that is stopped while it waits never starts."""
        while not future.done():
            if stop.is_set():
                with self._news:
                    waiting = self._desk.withdraw(ticket)
                if waiting:
                    self._settle(ticket, ABORTED)
                return
            with contextlib.suppress(TimeoutError):
                future.exception(timeout=STOP_POLL)

    def _settle(self, ticket: Ticket, outcome: Completion | BaseException) -> None:
        """Tell the caller."""
        future = self._futures.pop(ticket.job.key, None)
        if future is None or future.done():
            return
        if isinstance(outcome, Completion):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise TransportFailure("the embedded engine was closed")
