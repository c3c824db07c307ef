"""The pool's side of one worker process: start it, ask it, notice when it dies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading

from harnesstrain.core.errors import LlmFailure
from harnesstrain.core.ports import StopSignal
from harnesstrain.llm.embedded.channel import Channel, Closed, raise_failure
from harnesstrain.llm.embedded.chatml import Prompt
from harnesstrain.llm.embedded.jobs import Completion, Job, Setup

STOP_POLL = 0.1
"""Seconds between looks at a stop signal while a job runs."""

LOAD_LIMIT = 600.0
"""Seconds a worker may take to load its model (a cold disk is slow)."""


class Died(Exception):
    """The worker process went away in the middle of something.  Carries what it said last."""


class WorkerProcess:
    """A running worker.  `complete` is for one thread, `count` for any."""

    def __init__(self, setup: Setup) -> None:
        """Start and wait until the model is loaded.  Raises Prerequisite, UsageError, LlmFailure or Died."""
        ours, theirs = zip(socket.socketpair(), socket.socketpair(), strict=True)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._counting, self._ending = threading.Lock(), threading.Lock()
        self._jobs, self._counts = (Channel(end) for end in ours)
        numbers = [str(end.fileno()) for end in theirs]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harnesstrain.llm.embedded.worker", *numbers, str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=[end.fileno() for end in theirs],
            start_new_session=True,
        )
        for end in theirs:
            end.close()
        try:
            self._jobs.send(setup.model_dump(mode="json"))
            if not self._jobs.ready(LOAD_LIMIT):
                raise LlmFailure(f"the model did not load within {LOAD_LIMIT:.0f} seconds")
            raise_failure(self._jobs.receive())
        except Closed as error:
            raise Died(self._last_words()) from error
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def complete(self, job: Job, stop: StopSignal | None = None) -> Completion:
        """Have a job computed.  Raises LlmFailure (also ContextOverflow), or Died."""
        try:
            self._jobs.send({"job": job.model_dump(mode="json")})
            if stop is not None:
                self._until(job.key, stop)
            answer = self._jobs.receive()
        except Closed as error:
            raise Died(self._last_words()) from error
        raise_failure(answer)
        return Completion.model_validate(answer["done"])

    def count(self, prompt: Prompt) -> int:
        """Tokens of a prompt; does not wait for a running job.  Raises LlmFailure or Died."""
        with self._counting:
            try:
                self._counts.send(prompt.model_dump(mode="json"))
                answer = self._counts.receive()
            except Closed as error:
                raise Died("the worker process ended while it counted tokens") from error
        raise_failure(answer)
        return int(answer["count"])

    def kill(self) -> None:
        """End the process now and collect it.  Whoever waits for it sees Died.  Any thread; again does nothing."""
        with self._ending:
            self._process.kill()
            self._process.wait()
            self._jobs.close()
            self._counts.close()
            self._log.close()

    def _until(self, key: int, stop: StopSignal) -> None:
        """Wait for the answer; pass a stop on once."""
        while not self._jobs.ready(STOP_POLL):
            if stop.is_set():
                self._jobs.send({"abort": key})
                return

    def _last_words(self) -> str:
        """Why the process ended, as far as it can be known; the process is gone afterwards."""
        with self._ending:
            if self._log.closed:
                return "the worker process was ended"
            try:
                code = self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                code = self._process.wait()
            self._log.seek(0, os.SEEK_END)
            self._log.seek(max(0, self._log.tell() - 2000))
            lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        self.kill()
        ended = f"the worker process ended with {f'signal {-code}' if code < 0 else f'code {code}'}"
        return f"{ended}: {lines[-1][:300]}" if lines else ended
