"""Replies in OpenAI chat JSON: whatever a server says in them can be stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harnesstrain.llm.cached import CachedModel
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.contract import said
from harnesstrain.llm.wire import MOST, usage_from
from harnesstrain.store.caches import Caches
from tests.llm.badserver import bad_server, send

BROKEN = {
    "content": "hi \ud83d there",
    "reasoning_content": "\ude00",
    "tool_calls": [{"id": "c\ud800", "function": {"name": "run\udfff", "arguments": '{"a": "\ud800"}'}}],
}


def test_half_a_surrogate_pair_is_cached_as_it_is_seen(tmp_path: Path) -> None:
    body = json.dumps({"choices": [{"message": BROKEN, "finish_reason": "st\ud800p"}]}).encode()
    caches = Caches(tmp_path / "cache.db")
    with bad_server(lambda handler: send(handler, 200, body)) as server:
        model = CachedModel(OpenAIModel(server.url), caches.llm)
        first, again = (model.complete_with_source(said("hello")) for _ in range(2))
        model.close()
    caches.close()
    assert (first.source.value, again.source.value) == ("live", "cache")
    assert first.reply == again.reply
    (call,) = first.reply.tool_calls
    assert (first.reply.content, first.reply.reasoning) == ("hi \ufffd there", "\ufffd")
    assert (call.id, call.name, call.arguments) == ("c\ufffd", "run\ufffd", '{"a": "\ufffd"}')
    assert first.reply.finish_reason == "st\ufffdp"


@pytest.mark.parametrize(("told", "kept"), [(10**400, MOST), (1e300, MOST), (-1, 0), (True, 0), ("7", 0), (7.0, 7)])
def test_counts_of_tokens_can_be_added(told: object, kept: int) -> None:
    assert usage_from({"prompt_tokens": told}).prompt == kept
