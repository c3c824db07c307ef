"""Patience is told, not silent."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harnesstrain.core.errors import LlmFailure, TransportFailure
from harnesstrain.core.records.llm import LlmRequest
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.connect import ConnectSpec, connect
from harnesstrain.llm.transport import Patience
from harnesstrain.llm.waiting import Waiting
from tests.llm.badserver import GOOD, Act, bad_server, hangs_up, says

QUICK = Patience(connect=2.0, attempt=5.0, deadline=5.0, absent=0.1, pause=0.002, longest_pause=0.01)
ASK = LlmRequest(messages=({"role": "user", "content": "hello"},))
BUSY = says({"error": {"message": "loading"}}, 503)


def told(*acts: Act, **options: Any) -> list[str]:
    """What is said while a model is asked that behaves so."""
    said: list[str] = []
    with bad_server(*acts) as server:
        model = OpenAIModel(server.url, patience=QUICK, waiting=Waiting(said.append, **options))
        model.complete(ASK)
        model.close()
    return said


def test_trouble_that_goes_on_is_told_once_in_a_while() -> None:
    loading = "waiting for the model: the endpoint failed (503): loading"
    assert told(BUSY, BUSY, says(GOOD), after=0.0) == [loading]
    assert told(BUSY, BUSY, says(GOOD), after=0.0, every=0.0) == [loading, loading]
    (broken,) = told(hangs_up, says(GOOD), after=0.0)
    assert broken.startswith("waiting for the model: the endpoint at http://127.0.0.1:")


def test_what_soon_passes_is_not_told() -> None:
    assert told(BUSY, says(GOOD), after=1000.0) == []
    assert told(says(GOOD), after=0.0) == []


def test_nobody_has_to_listen() -> None:
    Waiting(None, after=0.0).failed(LlmFailure("busy"), 0.0)


def test_a_connection_tells_whom_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesstrain.llm.waiting.Waiting", functools.partial(Waiting, after=0.0))
    said: list[str] = []
    model = connect(ConnectSpec(url="http://127.0.0.1:9/v1", deadline=0.1), said.append)
    with pytest.raises(TransportFailure):
        model.endpoint()
    model.close()
    (line,) = said
    assert line.startswith("waiting for the model: the endpoint at http://127.0.0.1:9/v1 cannot be reached")
