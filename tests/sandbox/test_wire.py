"""The driver's side of the stream: an agent that lies, stalls or dies is an infrastructure failure, at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.sandbox import bundle, wire
from harnesstrain.sandbox.base import FileFault
from harnesstrain.sandbox.wire import Agent, PipeChannel

GREETING = "print('READY sh 1', flush=True); input(); print('HELLO 1 0 /bin/sh', flush=True);"
Start = Callable[[str], Agent]


def piped(*argv: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)


@pytest.fixture
def started() -> Iterator[Start]:
    agents: list[Agent] = []

    def start(code: str) -> Agent:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        agents.append(Agent(PipeChannel(process)))
        return agents[-1]

    yield start
    for agent in agents:
        agent.close()


@pytest.mark.parametrize("code", ["print('nonsense', flush=True)", "", "print('READY', flush=True)"])
def test_what_is_no_agent(started: Start, code: str) -> None:
    with pytest.raises(SandboxFailure):
        started(code).ready(b"", 0, 20)


def test_its_last_words_are_told(started: Start) -> None:
    with pytest.raises(SandboxFailure, match="the reason why"):
        started("import sys; sys.exit('first line\\nthe reason why')").ready(b"", 0, 20)


def test_a_silent_agent_is_given_up(started: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "ANSWER_WITHIN", 0.2)
    with pytest.raises(SandboxFailure, match="did not answer in time"):
        started("import time; time.sleep(60)").ready(b"", 0, 0.2)
    agent = started(f"{GREETING} import time; time.sleep(60)")
    agent.ready(b"", 0, 20)
    with pytest.raises(SandboxFailure, match="did not answer in time"):
        agent.run("true", cwd="/", cap=100, timeout=0.1)
    with pytest.raises(SandboxFailure, match="in time"):
        agent.write("/x", b"x" * 10_000_000)


@pytest.mark.parametrize("answer", ["END 0 0 0 0 0 1 100 0\\nshort", "WHAT", "END 0"])
def test_an_answer_that_breaks_off_or_is_none(started: Start, answer: str) -> None:
    agent = started(f"{GREETING} input(); print('{answer}', flush=True)")
    agent.ready(b"", 0, 20)
    with pytest.raises(SandboxFailure):
        agent.run("true", cwd="/", cap=100, timeout=5)


def test_faults_carry_errno_and_path(started: Start) -> None:
    agent = started(f"{GREETING} print('ERR ENOSPC 4\\nfull', end='', flush=True); input()")
    agent.ready(b"", 0, 20)
    with pytest.raises(FileFault) as fault:
        agent.read("/some/file")
    assert (fault.value.errno, fault.value.path, fault.value.message) == ("ENOSPC", "/some/file", "/some/file: full")
    assert fault.value.payload()["errno"] == "ENOSPC"


def test_the_real_agent_from_source_and_compiled() -> None:
    for message in (bundle.message(None), bundle.message(sys.executable)):
        agent = Agent(PipeChannel(piped(sys.executable, "-I", "-S", "-c", bundle.BOOT)))
        agent.ready(message, 0, 20)
        assert agent.kind == "python"
        assert agent.run("echo out; exit 2", cwd="/", cap=100).exit_code == 2
        assert agent.stat("/")[0] == "dir"
        agent.close()


def test_a_large_file_is_refused_beyond_the_limit(started: Start) -> None:
    agent = Agent(PipeChannel(piped(sys.executable, "-I", "-S", "-c", bundle.BOOT)))
    agent.ready(bundle.message(None), 0, 20)
    with pytest.raises(FileFault) as fault:
        agent.read(sys.executable, limit=100)
    assert fault.value.errno == "EFBIG"
    agent.close()
