"""`ht serve-llm` claims no more than a certificate says, and says aloud what it claims."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.project import Project

pytestmark = pytest.mark.local
Make = Callable[..., Project]
UNSTEADY = (
    '{"settings": {"deterministic": false, "unstable_above": 2, "latency": 0.05}}\n{"reply": "ok", "duration": 1.0}\n'
)


def server(project: Project) -> dict[str, Any]:
    """What `--status` says."""
    said: dict[str, Any] = json.loads(project.ht("serve-llm", "--status", "--json").out)
    return said


def test_a_certificate_is_published_as_soon_as_it_is_there(project: Make) -> None:
    made = project(tasks=("one",))
    made.rules(UNSTEADY)
    try:
        started = made.ht("serve-llm", "--detach", "--max-running", "4")
        assert started.code == 0, started.err
        assert "no certificate says that it repeats itself; `ht certify model --max-running 4`" in started.err
        before = server(made)["endpoint"]
        assert (before["deterministic"], before["max_running"]) == (False, 4)
        for asked, published in ((1, (1, 4)), (4, (2, 2))):  # nobody tried more than one; then more than two failed
            certified = made.ht("certify", "model", "--max-running", str(asked), HT_LLM_ENGINE="auto")
            assert certified.code == 0, certified.err
            until = time.monotonic() + 60
            while (now := server(made)["endpoint"])["max_running"] != published[0]:
                assert time.monotonic() < until, now
                time.sleep(0.2)
            assert (now["deterministic"], now["max_running"], now["capacity"]) == (True, *published)
        again = made.ht("serve-llm", "--detach", "--max-running", "4")
        assert "already running" in again.err
        assert "deterministic, 2 requests at once; 4 were asked for, and 2 are certified" in again.err
        assert made.ht("serve-llm", "--stop").code == 0
        anew = made.ht("serve-llm", "--detach", "--max-running", "4")
        assert "deterministic, 2 requests at once; 4 were asked for, and 2 are certified" in anew.err
    finally:
        assert made.ht("serve-llm", "--stop").code == 0


def test_a_taken_port_is_said_before_a_model_is_loaded(project: Make) -> None:
    made = project(tasks=("one",))
    made.rules("no rule at all\n")  # loading this model would fail, too
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ran = made.ht("serve-llm", "--engine", "scripted", "--port", port)
    assert ran.code == 6
    assert f"127.0.0.1 port {port} cannot be had" in ran.err
