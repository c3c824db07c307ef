"""A small task of the older Terminal-Bench format, written anew for each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MakeOld = Callable[..., Path]

YAML = """# t-bench-canary GUID 00000000
instruction: |-
  Write hello to /app/greeting.txt.
difficulty: easy
parser_name: pytest
max_agent_timeout_sec: 120
max_test_timeout_sec: 30.0
tags: [files]
"""

COMPOSE = """services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    network_mode: none
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
"""

RUN_TESTS = """#!/bin/bash
set -e
echo "=== short test summary info ==="
python3 $TEST_DIR/test_outputs.py
exit 7
"""

TEST = """from pathlib import Path
greeting = Path("/app/greeting.txt")
good = greeting.exists() and greeting.read_text() == "hello\\n"
print("PASSED" if good else "FAILED", "test_outputs.py::test_greeting")
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, of this test only."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "harnesstrain"


@pytest.fixture
def make_old(tmp_path: Path) -> MakeOld:
    """Writes a task directory and returns it; `files` adds, replaces or (None) removes."""

    def make(name: str = "hello", files: dict[str, str | bytes | None] | None = None) -> Path:
        directory = tmp_path / "tasks" / name
        contents: dict[str, str | bytes | None] = {
            "task.yaml": YAML,
            "docker-compose.yaml": COMPOSE,
            "Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\nCOPY . /app/\n",
            "run-tests.sh": RUN_TESTS,
            "tests/test_outputs.py": TEST,
            "solution.sh": "#!/bin/bash\necho hello > /app/greeting.txt\n",
            "data/input.txt": "input\n",
            **(files or {}),
        }
        for path, content in contents.items():
            if content is not None:
                (directory / path).parent.mkdir(parents=True, exist_ok=True)
                (directory / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        return directory

    return make
