"""What passes between the pool and its workers, and the constants of the evaluation.  Needs no numpy."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Sampling
from harnesstrain.llm.embedded.chatml import Prompt

CHUNK = 64
"""Tokens per prompt chunk.  Chunks are aligned at position 0; part of the model's identity."""

PROFILE = "plain"
"""Name of the kernel profile; part of the model's identity."""

CELL_PADDING = 256
"""A context length is rounded up to a multiple of this by the library; only multiples are accepted."""


class Setup(Record):
    """What a worker process loads."""

    weights: Path
    """The model file."""
    context_length: int
    """Tokens, prompt and completion together; a multiple of 256."""
    kv_bound: int
    """Bytes of saved KV streams, at most."""


class Job(Record):
    """One completion to compute."""

    key: int
    """Number of the request, unique in a pool."""
    prompt: Prompt
    sampling: Sampling
    logprobs: bool = False
    """Whether to report the log probability of each token."""
    cold: bool = False
    """Whether to give up every kept prefix first."""


class Completion(Record):
    """What came of a job."""

    text: str
    """Generated text without the forced beginning and without the stop string."""
    tokens: tuple[int, ...]
    """Generated token ids, those of a stop string included, the end token not."""
    logprobs: tuple[float, ...] | None
    finish: str
    """`stop` (end token or stop string), `length` (max_tokens or a full context) or `abort`."""
    prompt_tokens: int
    reused: int
    """Prompt tokens that a kept prefix saved."""
    seconds: float
    """CPU seconds of the evaluating thread: what the call takes on an idle core."""
    dropped: tuple[int, ...] = Field(default=())
    """Keys of KV streams that were given up."""
