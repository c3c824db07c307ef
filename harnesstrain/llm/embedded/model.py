"""The embedded engine as a Model: a real small language model on the CPU, deterministic by construction."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import BadRequest, UsageError
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply, Sampling, Usage
from harnesstrain.llm.embedded import chatml, library
from harnesstrain.llm.embedded.jobs import CELL_PADDING, CHUNK, PROFILE, Completion, Setup
from harnesstrain.llm.embedded.pool import Pool
from harnesstrain.llm.embedded.toolcalls import CALL_END, calls_in
from harnesstrain.llm.models.shelf import ModelFile

CONTEXT_LENGTH = 8192
"""Default tokens, prompt and completion together."""

MAX_RUNNING = 10
"""Default number of requests to be sent at once: conversations whose prefixes are meant to stay resident."""

KV_BOUND = 256 << 20
"""Default bytes of saved KV streams per worker, beside the live one."""


class EmbeddedModel:
    """A frozen model in worker processes on this machine.  Thread-safe.

    Nothing starts before the first completion or token count, unless the file is in no catalogue: then one worker
    loads it at once, to see whether it can be run.  The workers end with `close()` or with this process,
    however it ends.  Equal requests get equal replies, whatever runs beside them.
    """

    def __init__(
        self,
        file: ModelFile,
        *,
        context_length: int = CONTEXT_LENGTH,
        max_running: int = MAX_RUNNING,
        workers: int | None = None,
        kv_bound: int = KV_BOUND,
        logprobs: bool = False,
    ) -> None:
        """`workers` None: one per usable core, at most `max_running`.  `logprobs`: report them with every reply.

        Raises UsageError (a number out of range) or Prerequisite (the machine or the file cannot run).
        """
        if context_length < CELL_PADDING or context_length % CELL_PADDING:
            hint = f"give a multiple of {CELL_PADDING}"
            raise UsageError(f"a context length of {context_length} tokens cannot be had", hint=hint)
        if file.context is not None and context_length > file.context:
            message = f"{file.name} takes at most {file.context} tokens, not {context_length}"
            raise UsageError(message, hint=f"give a context length of at most {file.context}")
        if max_running < 1 or (workers is not None and workers < 1) or kv_bound < 0:
            raise UsageError("max_running and workers are at least 1, kv_bound at least 0")
        library.check_machine()
        self._file = file
        self._system = file.system or chatml.DEFAULT_SYSTEM
        self._logprobs = logprobs
        build = library.build()
        self._endpoint = Endpoint(
            engine="embedded",
            model=file.name,
            context_length=context_length,
            deterministic=True,
            max_running=max_running,
            identity={
                "library": build.library,
                "build": build.digest,
                "isa": build.isa,
                "libm": build.libm,
                "weights": file.sha256,
                "template": chatml.template_digest(self._system),
                "profile": PROFILE,
                "chunk": CHUNK,
            },
        )
        setup = Setup(weights=file.path, context_length=context_length, kv_bound=kv_bound)
        self._pool = Pool(setup, workers or min(usable_cores(), max_running))
        if file.context is None:
            try:
                self.count_tokens([{"role": "user", "content": ""}])
            except BaseException:
                self.close()
                raise

    def endpoint(self) -> Endpoint:
        """What it is.  Known without starting anything."""
        return self._endpoint

    def complete(self, request: LlmRequest) -> Reply:
        """One reply; blocks.  A prompt is never shortened: one that does not fit raises ContextOverflow.

        A reply that fills the context ends with `finish_reason` "length".  `duration` is the CPU seconds of the
        evaluation, so it does not depend on what else runs.  Raises BadRequest, ContextOverflow, TransportFailure.
        """
        return self._complete(request, None)

    def complete_until(self, request: LlmRequest, stop: StopSignal) -> Reply:
        """Like `complete`, but gives up soon after `stop` is set, with `finish_reason` "abort"."""
        return self._complete(request, stop)

    def inspect(self, request: LlmRequest, *, cold: bool = False, stop: StopSignal | None = None) -> Reply:
        """Like `complete_until`, with logprobs.  `cold`: what the worker kept of earlier prompts is given up first."""
        return self._complete(request, stop, logprobs=True, cold=cold)

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Prompt tokens of a conversation, template included.  Does not wait for running completions."""
        request = LlmRequest(messages=tuple(dict(message) for message in messages))
        return self._pool.count(chatml.render(request, self._system))

    def worker_pids(self) -> list[int]:
        """Process ids of the running workers."""
        return self._pool.pids()

    def close(self) -> None:
        """End the workers.  Requests still running fail with TransportFailure."""
        self._pool.close()

    def _complete(
        self, request: LlmRequest, stop: StopSignal | None, *, logprobs: bool = False, cold: bool = False
    ) -> Reply:
        check_sampling(request.sampling)
        prompt = chatml.render(request, self._system)
        done = self._pool.complete(prompt, request.sampling, logprobs=logprobs or self._logprobs, cold=cold, stop=stop)
        return reply(request, prompt, done)


def reply(request: LlmRequest, prompt: chatml.Prompt, done: Completion) -> Reply:
    """A completion as a Reply.  Calls are read only when tools were offered; the raw text is always the content.

    A required call's block is opened by the prompt; it is closed here when the model ended without closing it.
    """
    content = prompt.forced + done.text
    if prompt.forced and done.finish == "stop" and CALL_END not in done.text:
        content += f"\n{CALL_END}"
    offered = bool(request.tools) and request.tool_choice != "none"
    calls = calls_in(content, salt=prompt.text) if offered else ()
    return Reply(
        content=content,
        tool_calls=calls,
        finish_reason="tool_calls" if calls and done.finish == "stop" else done.finish,
        usage=Usage(prompt=done.prompt_tokens, cached=done.reused, completion=len(done.tokens)),
        token_ids=done.tokens,
        logprobs=done.logprobs,
        duration=done.seconds,
    )


def check_sampling(sampling: Sampling) -> None:
    """Raises BadRequest when a sampling parameter is out of range."""
    if not 0.0 <= sampling.temperature <= 100.0:
        raise BadRequest(f"temperature must be between 0 and 100, not {sampling.temperature}")
    if not 0.0 < sampling.top_p <= 1.0:
        raise BadRequest(f"top_p must be above 0 and at most 1, not {sampling.top_p}")
    if sampling.top_k is not None and sampling.top_k < 1:
        raise BadRequest(f"top_k must be at least 1, not {sampling.top_k}")
    if sampling.max_tokens < 1:
        raise BadRequest(f"max_tokens must be at least 1, not {sampling.max_tokens}")


def usable_cores() -> int:
    """Cores this process may use: its CPU affinity, and a control group's quota rounded down, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, int(quota) // int(period))
    except (OSError, ValueError):
        pass  # no control groups here
    return max(1, cores)
