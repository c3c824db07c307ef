"""Server programs as real processes: a stand-in for llama-server that listens, dawdles, fails and breeds."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.records.llm import LlmRequest
from harnesstrain.llm.base import EngineSpec, Watched
from harnesstrain.llm.engines.llamacpp import LlamacppEngine
from harnesstrain.llm.engines.process import Launch, ProcessModel, free_port
from harnesstrain.llm.logs import log_tail
from harnesstrain.llm.state import birth

SERVER = """#!{python}
import json, os, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
arguments = sys.argv[1:]
port = int(arguments[arguments.index("--port") + 1])
open({notes!r}, "w").write(json.dumps({{"pid": os.getpid(), "argv": arguments}}))
{extra}
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def say(self, body):
        data = json.dumps(body).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(data))); self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        if self.path == "/props":
            return self.say({{"default_generation_settings": {{"n_ctx": 1024}}, "build_info": "stand-in"}})
        self.say({{"data": [{{"id": "m.gguf", "owned_by": "llamacpp"}}]}})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.say({{"choices": [{{"message": {{"content": json.dumps(body.get("cache_prompt"))}}}}]}})
print("listening", flush=True)
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def program(folder: Path, extra: str = "") -> Path:
    path = folder / "llama-server"
    path.write_text(SERVER.format(python=sys.executable, notes=str(folder / "notes.json"), extra=extra))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (folder / "m.gguf").write_bytes(b"weights")
    return path


def spec(folder: Path, extra: str = "") -> EngineSpec:
    options = {"program": str(program(folder, extra))}
    return EngineSpec(engine="llamacpp", model=str(folder / "m.gguf"), options=options, log=folder / "engine.log")


def noted(folder: Path, name: str = "notes.json") -> int:
    import json

    pid: int = json.loads((folder / name).read_text())["pid"]
    return pid


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_is_started_used_and_ended(tmp_path: Path) -> None:
    model = LlamacppEngine().start(spec(tmp_path))
    pid = noted(tmp_path)
    endpoint = model.endpoint()
    assert (endpoint.engine, endpoint.model, endpoint.context_length) == ("llamacpp", "m.gguf", 1024)
    assert endpoint.deterministic is False
    assert endpoint.identity["server"]["build_info"] == "stand-in"
    assert str(tmp_path) not in str(endpoint.identity)
    reply = model.complete(LlmRequest(messages=({"role": "user", "content": "x"},)))
    assert reply.content == "false"  # cache_prompt was switched off
    assert isinstance(model, Watched) and model.trouble() is None
    model.close()
    model.close()
    assert birth(pid) is None
    assert "listening" in log_tail(tmp_path / "engine.log")


def test_the_same_program_elsewhere_is_the_same_endpoint(tmp_path: Path) -> None:
    fingerprints = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        model = LlamacppEngine().start(spec(tmp_path / name))
        fingerprints.add(model.endpoint().fingerprint)
        model.close()
    assert len(fingerprints) == 1


def test_a_program_that_ends_at_once_shows_its_log(tmp_path: Path) -> None:
    bad = spec(tmp_path, "print('loading'); sys.exit('out of memory')")
    with pytest.raises(Prerequisite, match="ended with status 1 while it started: out of memory") as caught:
        LlamacppEngine().start(bad)
    assert caught.value.extra["log_tail"][-2:] == ["loading", "out of memory"]
    assert str(tmp_path / "engine.log") in (caught.value.hint or "")


def test_a_program_that_never_comes_up_is_ended(tmp_path: Path) -> None:
    path = program(
        tmp_path,
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('dawdling', flush=True); time.sleep(600)",
    )
    port = free_port()
    launch = Launch(
        engine="slow", command=[str(path), "--port", str(port)], port=port, health="/health", identity={},
        context_length=5, max_running=1, start_timeout=1.5,
    )  # fmt: skip
    with pytest.raises(Prerequisite, match="did not come up within 1.5 s: dawdling"):
        ProcessModel(launch)
    assert birth(noted(tmp_path)) is None


def test_a_program_that_dies_later_is_noticed(tmp_path: Path) -> None:
    model = LlamacppEngine().start(spec(tmp_path))
    assert isinstance(model, Watched)
    os.kill(noted(tmp_path), signal.SIGKILL)
    until(lambda: model.trouble() is not None)
    assert model.trouble() == "llamacpp ended with status 137"
    model.close()


BREEDS = (
    "child = subprocess.Popen([sys.executable, '-c', "
    "'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])\n"
    "open({path!r}, 'w').write(json.dumps({{'pid': child.pid}}))"
)


def test_what_the_program_started_is_ended_too(tmp_path: Path) -> None:
    model = LlamacppEngine().start(spec(tmp_path, BREEDS.format(path=str(tmp_path / "child.json"))))
    child = noted(tmp_path, "child.json")
    assert birth(child) is not None
    model.close()
    until(lambda: birth(child) is None)


OWNER = """
import sys, pathlib, time
from harnesstrain.llm.base import EngineSpec
from harnesstrain.llm.engines.llamacpp import LlamacppEngine
model = LlamacppEngine().start(EngineSpec.model_validate_json(sys.argv[1]))
print("up", flush=True)
time.sleep(600)
"""


def test_the_program_ends_with_its_owner_even_after_kill_9(tmp_path: Path) -> None:
    wanted = spec(tmp_path, BREEDS.format(path=str(tmp_path / "child.json")))
    with subprocess.Popen([sys.executable, "-c", OWNER, wanted.model_dump_json()], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == b"up\n"
        server, child = noted(tmp_path), noted(tmp_path, "child.json")
        assert birth(server) is not None and birth(child) is not None
        owner.kill()
    until(lambda: birth(server) is None and birth(child) is None)
