"""A cold evaluation is cold, and tells the same."""

from __future__ import annotations

import pytest

from harnesstrain.core.records.llm import LlmRequest, Sampling
from harnesstrain.llm.embedded.model import EmbeddedModel

pytestmark = pytest.mark.model


def test_cold_and_warm_are_bit_equal(small_file):
    model = EmbeddedModel(small_file, context_length=512, workers=1)
    words = " ".join(f"word{number}" for number in range(60))
    request = LlmRequest(messages=({"role": "user", "content": words},), sampling=Sampling(max_tokens=4))
    try:
        first = model.complete(request)
        warm = model.inspect(request)
        cold = model.inspect(request, cold=True)
    finally:
        model.close()
    assert first.logprobs is None
    assert warm.logprobs is not None and len(warm.logprobs) == len(warm.token_ids or ())
    assert (first.usage.cached, cold.usage.cached) == (0, 0)
    assert warm.usage.cached > 0
    assert (warm.content, warm.token_ids, warm.logprobs) == (cold.content, cold.token_ids, cold.logprobs)
