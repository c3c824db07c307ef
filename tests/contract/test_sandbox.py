"""The sandbox contract, on every kind that can be had here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harnesstrain.sandbox.base import Sandbox
from harnesstrain.sandbox.contract import SandboxContract
from tests.sandbox import kinds


@pytest.mark.local
class TestLocal(SandboxContract):
    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
        sandbox = kinds.local(tmp_path_factory.mktemp("cache"))
        yield sandbox
        sandbox.close()


@pytest.mark.docker
class TestDocker(SandboxContract):
    base = kinds.SMALL

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
        sandbox = kinds.docker(tmp_path_factory.mktemp("cache"))
        yield sandbox
        sandbox.close()


@pytest.mark.docker
class TestDockerWithoutPython(SandboxContract):
    base = kinds.TINY

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
        sandbox = kinds.docker(tmp_path_factory.mktemp("cache"), image=kinds.TINY)
        yield sandbox
        sandbox.close()


class TestProcess(SandboxContract):
    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls) -> Iterator[Sandbox]:
        sandbox = kinds.process()
        yield sandbox
        sandbox.close()
