"""Observers watch and cannot disturb."""

from __future__ import annotations

import logging
import threading

import pytest

from harnesstrain.core.events import Bus, Event


class Notes:
    def __init__(self) -> None:
        self.seen: list[Event] = []

    def on(self, event: Event) -> None:
        self.seen.append(event)


class Broken:
    def on(self, event: Event) -> None:
        raise RuntimeError("no")


def test_every_observer_sees_every_event_until_removed() -> None:
    first, second = Notes(), Notes()
    bus = Bus(first)
    remove = bus.watch(second)
    bus.emit("run.started", "off we go", cells=3)
    remove()
    remove()
    bus.emit("run.finished")
    assert [event.kind for event in first.seen] == ["run.started", "run.finished"]
    assert [(event.kind, event.message, event.data) for event in second.seen] == [
        ("run.started", "off we go", {"cells": 3})
    ]


def test_an_observer_that_raises_is_dropped_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    notes = Notes()
    bus = Bus(Broken(), notes)
    with caplog.at_level(logging.ERROR):
        bus.emit("one")
        bus.emit("two")
    assert [event.kind for event in notes.seen] == ["one", "two"]
    assert len(caplog.records) == 1


def test_events_come_one_at_a_time_from_many_threads() -> None:
    notes = Notes()
    bus = Bus(notes)
    threads = [threading.Thread(target=lambda: [bus.emit("x") for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(notes.seen) == 200
