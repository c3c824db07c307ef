"""A whole completion inside one process: tokens, prefill, decode, stop."""

from __future__ import annotations

import time
from collections.abc import Callable

from harnesstrain.core.errors import UsageError
from harnesstrain.llm.embedded import library
from harnesstrain.llm.embedded.chatml import Prompt
from harnesstrain.llm.embedded.context import Context
from harnesstrain.llm.embedded.jobs import CELL_PADDING, Completion, Job, Setup
from harnesstrain.llm.embedded.sampler import Logits, logprob, sample
from harnesstrain.llm.embedded.streams import Streams
from harnesstrain.llm.embedded.weights import Weights, overflow


class Evaluator:
    """A model loaded in this process.  A completion is a pure function of weights, library, prompt and sampling."""

    def __init__(self, setup: Setup) -> None:
        """Load.  Raises Prerequisite, UsageError (context length) or LlmFailure (memory)."""
        handle = library.load()
        self._weights = Weights(handle, setup.weights)
        length, trained = setup.context_length, self._weights.trained_context
        if length % CELL_PADDING or not CELL_PADDING <= length <= trained:
            raise UsageError(
                f"a context length of {length} tokens cannot be had",
                hint=f"give a multiple of {CELL_PADDING} up to {trained}",
            )
        self._context = Context(handle, self._weights, length)
        self._streams = Streams(self._context, setup.kv_bound)

    def close(self) -> None:
        """Free everything."""
        self._context.close()
        self._weights.close()

    def forget(self) -> None:
        """Give up every kept prefix: the next prompt is evaluated cold."""
        self._streams.clear()

    def count(self, prompt: Prompt) -> int:
        """Tokens of a prompt.  Thread-safe; may run beside `complete`."""
        return len(self._weights.tokens(prompt, room=2**31))

    def complete(
        self,
        job: Job,
        aborted: Callable[[], bool] = lambda: False,
        observe: Callable[[Logits], None] = lambda row: None,
    ) -> Completion:
        """Compute a completion.  `aborted` is asked between evaluations; `observe` sees each logits row that is used.

        Raises ContextOverflow when prompt and one token do not fit; LlmFailure when the evaluation fails.
        """
        started = time.thread_time()
        prompt = self._weights.tokens(job.prompt, self._context.length)
        if job.cold:
            self.forget()
        room = self._context.length - len(prompt)
        if room < 1:
            raise overflow(len(prompt), self._context.length)
        filled = self._streams.prefill(job.key, prompt, aborted)
        writer = _Writer(self._weights, job.sampling.stop)
        scores: list[float] = []
        finish = "abort" if filled is None else "length"
        row = None if filled is None else filled.logits
        for step in range(min(job.sampling.max_tokens, room)):
            if row is None:
                break
            observe(row)
            token = sample(row, job.sampling, step)
            if self._weights.ends(token):
                finish = "stop"
                break
            if job.logprobs:
                scores.append(logprob(row, token))
            if writer.add(token):
                finish = "stop"
                break
            if aborted():
                finish = "abort"
                break
            if step + 1 < min(job.sampling.max_tokens, room):
                row = self._context.decode([token], len(prompt) + step, scored=True)
        self._streams.settle()
        return Completion(
            text=writer.text(),
            tokens=tuple(writer.tokens),
            logprobs=tuple(scores) if job.logprobs else None,
            finish=finish,
            prompt_tokens=len(prompt),
            reused=filled.reused if filled else 0,
            seconds=time.thread_time() - started,
            dropped=tuple(self._streams.take_dropped()),
        )


class _Writer:
    """Collects tokens as text and notices stop strings, also across token borders."""

    def __init__(self, weights: Weights, stop: tuple[str, ...]) -> None:
        self._weights = weights
        self._stops = [text.encode("utf-8", "replace") for text in stop if text]
        self._longest = max((len(text) for text in self._stops), default=0)
        self._data = bytearray()
        self.tokens: list[int] = []

    def add(self, token: int) -> bool:
        """Add a token; whether a stop string is now complete (the text then ends before it)."""
        before = len(self._data)
        self._data += self._weights.piece(token)
        self.tokens.append(token)
        found = [self._data.find(stop, max(0, before - self._longest)) for stop in self._stops]
        places = [place for place in found if place >= 0]
        if places:
            del self._data[min(places) :]
        return bool(places)

    def text(self) -> str:
        """The text so far; bytes that are not UTF-8 become replacement characters."""
        return self._data.decode("utf-8", "replace")
