"""Devices from settings."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.events import Bus, Event
from harnesstrain.llm.waiting import Waiting
from harnesstrain.measure.project import open_context
from tests.project import Project

pytestmark = pytest.mark.local


class Heard:
    """Remembers what is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)


def test_a_model_that_is_waited_for_is_told(project: Callable[..., Project], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesstrain.llm.waiting.Waiting", functools.partial(Waiting, after=0.0))
    made, heard = project(), Heard()
    flags = {"llm.engine": "external", "llm.url": "http://127.0.0.1:9/v1", "llm.deadline": 0.1}
    with open_context(made.settings(**flags), environ=made.environment(), bus=Bus(heard)) as context:
        with pytest.raises(Prerequisite, match="cannot be reached"):
            _ = context.devices
        context.store.close()
    (event,) = heard.events
    assert event.kind == "model.waiting"
    assert event.message.startswith("waiting for the model: the endpoint at http://127.0.0.1:9/v1 cannot be reached")
