"""One evaluation context: one sequence, one thread, one decode call at a time.

The kernel profile "plain": weights not repacked, flash attention off, KV in float16.  Only two classes of kernels are
left (calls with fewer than eight tokens and with eight or more), so a chunk's result depends on the tokens before it
and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harnesstrain.core.errors import LlmFailure
from harnesstrain.llm.embedded.jobs import CHUNK
from harnesstrain.llm.embedded.sampler import Logits
from harnesstrain.llm.embedded.weights import Weights

SEQUENCE = 0


class Context:
    """KV memory for one sequence of up to `length` tokens.  Not thread-safe."""

    def __init__(self, library: Any, weights: Weights, length: int) -> None:
        """Allocate.  Raises LlmFailure when there is not enough memory."""
        params = library.llama_context_default_params()
        params.n_ctx = length
        params.n_batch = params.n_ubatch = CHUNK
        params.n_seq_max = 1
        params.n_outputs_max = 1
        params.n_threads = params.n_threads_batch = 1
        params.flash_attn_type = 0
        params.op_offload = params.offload_kqv = False
        self._library = library
        self._weights = weights
        self._handle = library.llama_init_from_model(weights.handle, params)
        if not self._handle:
            raise LlmFailure(f"no memory for a context of {length} tokens", hint="lower the context length")
        self._memory = library.llama_get_memory(self._handle)
        self._batch = library.llama_batch_init(CHUNK, 0, 1)
        self.length = int(library.llama_n_ctx(self._handle))

    def close(self) -> None:
        """Free the KV memory."""
        if self._handle:
            self._library.llama_batch_free(self._batch)
            self._library.llama_free(self._handle)
            self._handle = None

    def cut(self, length: int) -> None:
        """Forget everything from position `length` on."""
        if length <= 0:
            self._library.llama_memory_clear(self._memory, True)
        elif not self._library.llama_memory_seq_rm(self._memory, SEQUENCE, length, -1):
            raise LlmFailure(f"the KV memory cannot be cut at {length}")

    def decode(self, tokens: Sequence[int], position: int, scored: bool) -> Logits | None:
        """Evaluate 1 to CHUNK tokens at `position`.  When `scored`, the logits row of the last one (a copy)."""
        batch = self._batch
        batch.n_tokens = len(tokens)
        for place, token in enumerate(tokens):
            batch.token[place] = token
            batch.pos[place] = position + place
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = SEQUENCE
            batch.logits[place] = 0
        last = len(tokens) - 1
        batch.logits[last] = 1 if scored else 0
        status = self._library.llama_decode(self._handle, batch)
        if status != 0:
            raise LlmFailure(f"the model could not evaluate {len(tokens)} tokens at {position} (status {status})")
        if not scored:
            return None
        row = self._library.llama_get_logits_ith(self._handle, last)
        return np.ctypeslib.as_array(row, (self._weights.vocab_size,)).copy()

    def save(self) -> NDArray[np.uint8]:
        """The KV memory as bytes."""
        size = self._library.llama_state_seq_get_size(self._handle, SEQUENCE)
        data = np.empty(size, dtype=np.uint8)
        written = self._library.llama_state_seq_get_data(self._handle, data.ctypes.data, size, SEQUENCE)
        if written != size:
            raise LlmFailure("the KV memory could not be saved")
        return data

    def restore(self, data: NDArray[np.uint8]) -> None:
        """Replace the KV memory with saved bytes."""
        self.cut(0)
        read = self._library.llama_state_seq_set_data(self._handle, data.ctypes.data, data.size, SEQUENCE)
        if read != data.size:
            raise LlmFailure("the KV memory could not be restored")
