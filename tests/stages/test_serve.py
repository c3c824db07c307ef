"""Serving as real processes: detach, status, stop; signals; kill -9; two starts at once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from harnesstrain.core.errors import Busy, ConfigError, Prerequisite, TransportFailure, UsageError
from harnesstrain.core.records.llm import LlmRequest
from harnesstrain.llm.base import EngineSpec
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.connect import ConnectSpec, connect
from harnesstrain.llm.state import STATE, birth, read_state
from harnesstrain.stages.serve import Action, ServeSpec, Serving, run, status, stop
from harnesstrain.stages.serve.spec import Condition

ASK = LlmRequest(messages=({"role": "user", "content": "hello"},))
SECRET = "sk-canary-51ab"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A state directory; whatever runs there at the end is stopped."""
    path = tmp_path / ".ht"
    yield path
    state = read_state(path)
    stop(path, grace=1)
    assert state is None or birth(state.pid) is None


@pytest.fixture
def spec(tmp_path: Path, directory: Path) -> ServeSpec:
    script = tmp_path / "rules.jsonl"
    script.write_text('{"match": "slow", "reply": "late", "delay": 600}\n{"reply": "hi"}\n')
    engine = EngineSpec(engine="scripted", script=script)
    return ServeSpec(directory=directory, action=Action.DETACH, engine=engine, start_timeout=60)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def running(serving: Serving) -> int:
    """Requests that run there."""
    url = urlsplit(serving.url or "")
    connection = HTTPConnection("127.0.0.1", url.port, timeout=20)
    connection.request("GET", "/health")
    said: int = json.loads(connection.getresponse().read())["running"]
    connection.close()
    return said


def says(url: str | None) -> str:
    model = OpenAIModel(url or "")
    try:
        return model.complete(ASK).content
    finally:
        model.close()


def test_detach_status_stop(spec: ServeSpec, directory: Path) -> None:
    assert status(directory) == Serving(condition=Condition.STOPPED)
    announced: list[Serving] = []
    serving = run(spec, announce=announced.append)
    assert announced == [serving]
    assert serving.condition is Condition.RUNNING and serving.detached and not serving.already
    assert says(serving.url) == "hi"
    assert serving.pid is not None and os.getsid(serving.pid) == serving.pid
    assert status(directory) == serving
    assert serving.log is not None and "serving scripted" in Path(serving.log).read_text()
    stopped = run(spec.model_copy(update={"action": Action.STOP}))
    assert (stopped.condition, stopped.pid) == (Condition.STOPPED, serving.pid)
    assert birth(serving.pid) is None
    assert not (directory / STATE).exists()
    assert stop(directory).condition is Condition.STOPPED
    assert "Traceback" not in Path(serving.log).read_text()


def test_a_second_start_of_the_same_finds_the_first(spec: ServeSpec, directory: Path) -> None:
    first, second = run(spec), run(spec)
    assert second == first.model_copy(update={"already": True})
    foreground = run(spec.model_copy(update={"action": Action.FOREGROUND}))
    assert foreground == second


def test_a_second_start_of_something_else_is_busy(spec: ServeSpec, tmp_path: Path) -> None:
    first = run(spec)
    other = tmp_path / "other.jsonl"
    other.write_text('{"reply": "other"}\n')
    engine = EngineSpec(engine="scripted", script=other)
    for action in (Action.DETACH, Action.FOREGROUND):
        with pytest.raises(Busy, match=re.escape(first.url or "")):
            run(spec.model_copy(update={"engine": engine, "action": action}))
    assert says(first.url) == "hi"


def test_starts_at_once_make_one_server(spec: ServeSpec) -> None:
    with ThreadPoolExecutor(4) as pool:
        servings = [future.result() for future in [pool.submit(run, spec) for _ in range(4)]]
    assert len({serving.pid for serving in servings}) == 1
    assert sorted(serving.already for serving in servings) == [False, True, True, True]


def test_kill_9_leaves_a_stale_state_and_no_obstacle(spec: ServeSpec, directory: Path) -> None:
    first = run(spec)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: birth(first.pid or 0) is None)
    assert status(directory).condition is Condition.STALE
    second = run(spec)
    assert second.pid != first.pid and not second.already
    assert status(directory).condition is Condition.RUNNING
    os.kill(second.pid or 0, signal.SIGKILL)
    until(lambda: birth(second.pid or 0) is None)
    assert stop(directory).condition is Condition.STOPPED
    assert not (directory / STATE).exists()


def test_another_process_with_the_same_id_is_not_touched(spec: ServeSpec, directory: Path) -> None:
    run(spec)
    state = read_state(directory)
    assert state is not None
    stop(directory)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        claimed = state.model_copy(update={"pid": stranger.pid})
        (directory / STATE).write_text(claimed.model_dump_json())
        assert status(directory).condition is Condition.STALE
        stop(directory)
        assert stranger.poll() is None
        stranger.kill()


def test_a_server_that_hangs_is_unresponsive_and_killed(spec: ServeSpec, directory: Path) -> None:
    serving = run(spec)
    assert serving.pid is not None
    os.kill(serving.pid, signal.SIGSTOP)
    until(lambda: status(directory).condition is Condition.UNRESPONSIVE)
    stop(directory, grace=0.2)
    assert birth(serving.pid) is None


def test_stopping_ends_a_request_that_runs(spec: ServeSpec, directory: Path) -> None:
    serving = run(spec)
    model = OpenAIModel(serving.url or "", deadline=5)
    slow = LlmRequest(messages=({"role": "user", "content": "slow"},))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(model.complete, slow)
        until(lambda: running(serving) == 1)
        stop(directory)
        error = future.exception(timeout=60)
        assert isinstance(error, TransportFailure) or future.result().finish_reason == "abort"
    model.close()
    assert "stopping" in Path(serving.log or "").read_text()


@pytest.mark.parametrize(("change", "kind", "said"), [
    ({"engine": "scripted", "script": "nowhere.jsonl"}, ConfigError, "cannot be read"),
    ({"engine": "scripted"}, UsageError, "rules file"),
    ({"engine": "scriptd"}, UsageError, "no 'scriptd'"),
    ({"engine": "external", "url": "http://127.0.0.1:1/v1", "options": {"deadline": "0.1"}}, Prerequisite, "cannot be"),
])  # fmt: skip
def test_a_server_that_cannot_start_says_why(
    spec: ServeSpec, directory: Path, change: Any, kind: Any, said: str
) -> None:
    before = spec.model_copy(update={"engine": EngineSpec.model_validate(change)})
    with pytest.raises(kind, match=said) as caught:
        run(before)
    assert caught.value.hint
    assert status(directory).condition is Condition.STOPPED
    with pytest.raises(kind, match=said):
        run(before.model_copy(update={"action": Action.FOREGROUND}))


def plugin(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> EngineSpec:
    """An engine of the user's own, in a module that the server process can import."""
    (tmp_path / "own_engine.py").write_text("import os, sys, time\nclass Engine:\n    def start(self, spec):\n" + body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return EngineSpec(engine="own_engine:Engine")


def test_a_server_that_dies_while_starting_shows_its_log(
    spec: ServeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = plugin(tmp_path, "        print('cannot allocate', flush=True); os._exit(9)\n", monkeypatch)
    with pytest.raises(Prerequisite, match="ended with status 9: cannot allocate") as caught:
        run(spec.model_copy(update={"engine": engine}))
    assert caught.value.extra["log_tail"] == ["cannot allocate"]
    assert "server.log" in (caught.value.hint or "")


def test_a_bug_while_starting_shows_its_log(spec: ServeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = plugin(tmp_path, "        raise ZeroDivisionError('oops')\n", monkeypatch)
    with pytest.raises(Prerequisite, match="ended with status 1: ZeroDivisionError: oops"):
        run(spec.model_copy(update={"engine": engine}))


def test_a_server_that_does_not_answer_in_time_is_ended(
    spec: ServeSpec, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"        open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)\n"
    engine = plugin(tmp_path, body, monkeypatch)
    with pytest.raises(Prerequisite, match="did not answer within 2 s"):
        run(spec.model_copy(update={"engine": engine, "start_timeout": 2.0}))
    assert birth(int((tmp_path / "pid").read_text())) is None
    assert status(directory).condition is Condition.STOPPED


FOREGROUND = """
import json, sys
from harnesstrain.stages.serve import ServeSpec, run
spec = ServeSpec.model_validate_json(sys.argv[1])
end = run(spec, announce=lambda serving: print(serving.model_dump_json(), flush=True))
print(end.model_dump_json(), flush=True)
"""


def foreground(spec: ServeSpec) -> subprocess.Popen[bytes]:
    wanted = spec.model_copy(update={"action": Action.FOREGROUND})
    return subprocess.Popen(
        [sys.executable, "-c", FOREGROUND, wanted.model_dump_json()], stdout=subprocess.PIPE, start_new_session=True
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_foreground_server_cleanly(spec: ServeSpec, directory: Path, number: signal.Signals) -> None:
    with foreground(spec) as process:
        assert process.stdout is not None
        serving = Serving.model_validate_json(process.stdout.readline())
        assert not serving.detached and serving.log is None
        assert says(serving.url) == "hi"
        model = connect(ConnectSpec(state=directory))
        assert model.complete(ASK).content == "hi"
        model.close()
        process.send_signal(number)
        end = Serving.model_validate_json(process.stdout.readline())
        assert (end.condition, end.signal) == (Condition.STOPPED, number)
        assert process.wait(timeout=60) == 0
    assert not (directory / STATE).exists()


def test_a_signal_while_starting_ends_it_too(
    spec: ServeSpec, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"        open({str(tmp_path / 'there')!r}, 'w').close(); time.sleep(600)\n"
    engine = plugin(tmp_path, body, monkeypatch)
    with foreground(spec.model_copy(update={"engine": engine})) as process:
        assert process.stdout is not None
        until((tmp_path / "there").exists)
        process.send_signal(signal.SIGTERM)
        end = Serving.model_validate_json(process.stdout.readline())
        assert (end.condition, end.signal, end.pid) == (Condition.STOPPED, signal.SIGTERM, None)
        assert process.wait(timeout=60) == 0
    assert status(directory).condition is Condition.STOPPED


def test_serving_in_a_thread_ends_with_its_event(spec: ServeSpec, directory: Path) -> None:
    ready: list[Serving] = []
    event, up = threading.Event(), threading.Event()

    def tell(serving: Serving) -> None:
        ready.append(serving)
        up.set()

    with ThreadPoolExecutor(1) as pool:
        wanted = spec.model_copy(update={"action": Action.FOREGROUND})
        future = pool.submit(run, wanted, announce=tell, stop_event=event)
        assert up.wait(60)
        assert says(ready[0].url) == "hi"
        event.set()
        assert future.result(timeout=60).condition is Condition.STOPPED
    assert not (directory / STATE).exists()


def test_the_key_reaches_the_server_and_nothing_else(spec: ServeSpec, directory: Path, tmp_path: Path) -> None:
    from tests.llm.badserver import bad_server

    with bad_server() as upstream:
        engine = EngineSpec(engine="external", url=upstream.url, api_key=SECRET)
        serving = run(spec.model_copy(update={"engine": engine}))
        assert says(serving.url) == "fine"
        assert upstream.posts()[0].headers["Authorization"] == f"Bearer {SECRET}"
        proc = Path(f"/proc/{serving.pid}")
        shown = (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
        shown += b"".join(path.read_bytes() for path in directory.iterdir())
        shown += json.dumps(serving.model_dump(mode="json")).encode() + repr(spec).encode()
        assert SECRET.encode() not in shown
        stop(directory)


def test_a_directory_that_cannot_be_written(spec: ServeSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for action in (Action.DETACH, Action.FOREGROUND):
        with pytest.raises(Prerequisite):
            run(spec.model_copy(update={"directory": tmp_path / "file" / ".ht", "action": action}))
