"""A small task directory, written anew for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MakeTask = Callable[..., Path]

TOML = """schema_version = "1.4"

[metadata]
difficulty = "easy"
tags = ["one", "two"]

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 30.0

[environment]
network_mode = "no-network"
"""


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes a task directory and returns it; `toml` replaces task.toml, `files` adds, replaces or (None) removes."""

    def make(
        name: str = "hello",
        toml: str | bytes = TOML,
        files: dict[str, str | bytes | None] | None = None,
        folder: Path | None = None,
    ) -> Path:
        directory = (folder or tmp_path / "tasks") / name
        contents: dict[str, str | bytes | None] = {
            "task.toml": toml,
            "instruction.md": "Say hello.\n",
            "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\n",
            "tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n",
            "solution/solve.sh": "#!/bin/sh\necho hello\n",
            **(files or {}),
        }
        for path, content in contents.items():
            if content is not None:
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                (directory / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        return directory

    return make
