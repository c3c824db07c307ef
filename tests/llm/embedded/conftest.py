"""A real small model for the tests of the embedded engine, brought by the catalogue itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.records.llm import LlmRequest, Sampling
from harnesstrain.llm.embedded import library
from harnesstrain.llm.embedded.chatml import render
from harnesstrain.llm.embedded.jobs import Completion, Job, Setup
from harnesstrain.llm.embedded.model import EmbeddedModel
from harnesstrain.llm.models.pull import pull
from harnesstrain.llm.models.shelf import ModelFile

SMALL = "smollm2-135m"


@pytest.fixture(scope="session")
def small_file() -> ModelFile:
    """The smallest catalogue model; a skip that says why when it cannot be had or run here."""
    try:
        library.check_machine()
        return pull(SMALL)
    except Prerequisite as error:
        pytest.skip(f"the embedded engine or its small model is not available: {error}")


@pytest.fixture(scope="module")
def small_model(small_file: ModelFile) -> Iterator[EmbeddedModel]:
    """A pool of two workers with the small model."""
    model = EmbeddedModel(small_file, context_length=1024, workers=2, logprobs=True)
    yield model
    model.close()


@dataclass
class Bench:
    """An evaluator in this process, with digests of every logits row it used."""

    evaluator: Any
    rows: list[str] = field(default_factory=list)
    keys: int = 0

    def run(self, messages: list[dict[str, Any]], **sampling: Any) -> Completion:
        """Complete a conversation; `rows` then holds the digests of its logits rows."""
        self.keys += 1
        self.rows = []
        job = Job(
            key=self.keys,
            prompt=render(LlmRequest(messages=tuple(messages))),
            sampling=Sampling(**{"max_tokens": 4, "temperature": 1.0, "seed": 7, **sampling}),
            logprobs=True,
        )
        done: Completion = self.evaluator.complete(
            job, observe=lambda row: self.rows.append(hashlib.sha256(row.tobytes()).hexdigest())
        )
        return done


@pytest.fixture(scope="module")
def make_bench(small_file: ModelFile) -> Iterator[Callable[..., Bench]]:
    """Makes evaluators of the small model; `kv_bound=0` keeps nothing beside the live stream."""
    from harnesstrain.llm.embedded.evaluator import Evaluator

    made: list[Evaluator] = []

    def make(kv_bound: int = 1 << 28, context_length: int = 1024) -> Bench:
        setup = Setup(weights=small_file.path, context_length=context_length, kv_bound=kv_bound)
        made.append(Evaluator(setup))
        return Bench(made[-1])

    yield make
    for evaluator in made:
        evaluator.close()
