"""`ht serve-llm` claims no more than a certificate says, and says aloud what it claims."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from importlib.util import find_spec
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


@pytest.mark.parametrize("engine", ["sglang", "vllm", "llamacpp", "external"])
def test_a_script_of_the_settings_belongs_to_the_scripted_engine(project: Make, engine: str) -> None:
    made = project(tasks=("one",))
    url = ("--url", "http://127.0.0.1:9/v1") if engine == "external" else ()
    ran = made.ht("serve-llm", "--engine", engine, *url)
    assert ran.code in (2, 6) and "script" not in ran.err, ran.err
    given = made.ht("serve-llm", "--engine", engine, *url, "--script", "rules.jsonl")
    assert given.code == 2 and "takes no script" in given.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--engine", "sglang", "--model", "x/y"), 6, "sglang is not installed here"),
        (("--engine", "vllm", "--model", "x/y", "--engine-option", "Bad Name=1"), 2, "no flag of a model server"),
        (("--engine", "llamacpp", "--model", "none.gguf"), 2, "needs a GGUF file"),
        (("--engine", "embedded", "--engine-option", "speed=11"), 2, "no option 'speed'"),
        (("--engine", "scripted", "--script", "none.jsonl"), 2, "none.jsonl"),
        (("--engine", "scripted", "--host", "1.2.3.4"), 6, "1.2.3.4 is no address of this machine"),
        (("--engine", "nonsense"), 2, "nonsense"),
    ],
)
def test_a_dry_run_refuses_what_the_start_refuses(project: Make, words: tuple[str, ...], code: int, said: str) -> None:
    made = project(tasks=("one",))
    if words[1] == "sglang" and find_spec("sglang") is not None:
        pytest.skip("sglang is installed here")
    planned, started = made.ht("serve-llm", *words, "-n"), made.ht("serve-llm", *words)
    assert (planned.code, started.code) == (code, code), planned.err + started.err
    assert said in planned.err and planned.err == started.err
    assert "--port" not in planned.err


def test_a_dry_run_looks_at_the_port_and_at_what_runs(project: Make) -> None:
    made = project(tasks=("one",))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ran = made.ht("serve-llm", "--port", port, "-n")
    assert ran.code == 6 and f"port {port} cannot be had" in ran.err
    assert made.ht("serve-llm", "-n").out == "would serve with engine scripted, model its default\n"
    assert not (made.root / ".ht").exists()
    try:
        assert made.ht("serve-llm", "--detach").code == 0
        assert made.ht("serve-llm", "-n").out.startswith("already running: http://")
        assert made.ht("serve-llm", "--engine", "external", "--url", "http://127.0.0.1:9/v1", "-n").code == 7
    finally:
        assert made.ht("serve-llm", "--stop").code == 0
