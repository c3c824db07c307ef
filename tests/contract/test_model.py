"""The model contract on what ships: scripted, over HTTP, cached, and the embedded engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.records.llm import Reply
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.cached import CachedModel
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.contract import ModelContract
from harnesstrain.llm.engines.embedded import EmbeddedEngine
from harnesstrain.llm.front import Front
from harnesstrain.llm.scripted import ScriptedModel, Settings

RULES = [{"reply": "Hello there, this is a scripted reply that is longer than the limit."}]


def scripted() -> ScriptedModel:
    return ScriptedModel(RULES, Settings(context_length=1024))


def small() -> Model:
    """The small real model, where it is at hand."""
    try:
        spec = EngineSpec(engine="embedded", model="smollm2-135m", context_length=512, options={"workers": "2"})
        return EmbeddedEngine().start(spec)
    except Prerequisite as error:
        pytest.skip(f"the embedded engine or its small model is not available: {error}")


def over_http(model: Model) -> Iterator[Model]:
    front = Front(model).start()
    client = OpenAIModel(front.url)
    try:
        yield client
    finally:
        client.close()
        model.close()
        front.close()


class TestScripted(ModelContract):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Iterator[Model]:
        model = scripted()
        yield model
        model.close()


class TestScriptedOverHttp(ModelContract):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Iterator[Model]:
        yield from over_http(scripted())


class TestCached(ModelContract):
    class Memory:
        def __init__(self) -> None:
            self.kept: dict[str, Reply] = {}

        def get(self, key: str) -> Reply | None:
            return self.kept.get(key)

        def put(self, key: str, reply: Reply) -> None:
            self.kept.setdefault(key, reply)

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Iterator[Model]:
        model = CachedModel(scripted(), cls.Memory())
        yield model
        model.close()


@pytest.mark.model
class TestEmbedded(ModelContract):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Iterator[Model]:
        model = small()
        yield model
        model.close()


@pytest.mark.model
class TestEmbeddedOverHttp(ModelContract):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Iterator[Model]:
        yield from over_http(small())
