"""Misbehaving harnesses, in the jail and outside: each is bounded, named, and leaves nothing running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harnesstrain.core.errors import ConfigError, PolicyFailure, SandboxFailure
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness import jail, wire
from harnesstrain.harness.pipes import BoundedLog, Silent
from harnesstrain.harness.process import HarnessLimits, HarnessProcess

Make = Callable[..., tuple[Path, Manifest]]

SPEAK = """
import json, os, sys, time
def say(**message):
    os.write(1, json.dumps(message).encode() + b"\\n")
def call(number, method, **params):
    say(jsonrpc="2.0", id=number, method=method, params=params)
    return json.loads(sys.stdin.readline())
"""


def processes_with(token: str) -> list[int]:
    """Processes of this machine, jailed ones included, whose command line holds `token`."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(token in word for word in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def gone(token: str) -> bool:
    """Whether every process with `token` ends soon."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not processes_with(token):
            return True
        time.sleep(0.05)
    return False


def test_a_conversation(harness: Make, isolated: bool) -> None:
    program = SPEAK + "print('log line', file=sys.stderr)\nassert call(1, 'note', x='é')['result'] == 'ok'\n"
    place, manifest = harness(program)
    with HarnessProcess.start(place, manifest, isolated=isolated) as process:
        message = process.receive(20)
        assert message == {"jsonrpc": "2.0", "id": 1, "method": "note", "params": {"x": "é"}}
        process.send(wire.answer(1, "ok"))
        assert process.receive(20) is None
        ended = process.finish(5)
    assert (ended.code, ended.log, ended.killed) == (0, "log line\n", False)
    assert process.finish(5) == ended
    assert process.kill() == ended
    assert process.isolated is isolated


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(3)", 3), ("1/0", 1), ("import os; os.abort()", 134), ("import os; os._exit(0)", 0)],
)
def test_exits(harness: Make, isolated: bool, program: str, code: int) -> None:
    with HarnessProcess.start(*harness(program), isolated=isolated) as process:
        assert process.receive(20) is None
        assert process.finish(5).code == code


@pytest.mark.parametrize(
    "program",
    [
        "print('Loading the model …')",
        "import os; os.write(1, b'\\xff\\xfe\\n')",
        'print(\'{"jsonrpc": "2.0", "id": 1\')',
        "print('[]')",
        "import os; os.write(1, b'no line end')",
    ],
)
def test_garbage_on_stdout_is_quoted(harness: Make, isolated: bool, program: str) -> None:
    with HarnessProcess.start(*harness(program), isolated=isolated) as process:
        with pytest.raises(PolicyFailure, match="malformed message"):
            process.receive(20)
        process.kill()


def test_an_endless_line_is_bounded(harness: Make, isolated: bool) -> None:
    place, manifest = harness("import os\nwhile True: os.write(1, b'x' * 65536)")
    limits = HarnessLimits(line_bytes=1_000_000)
    with HarnessProcess.start(place, manifest, isolated=isolated, limits=limits) as process:
        with pytest.raises(PolicyFailure, match="a line of more than 1000000 bytes: 'xxx"):
            process.receive(20)
        assert process.kill().killed


def test_a_flood_of_messages_is_bounded(harness: Make, isolated: bool) -> None:
    place, manifest = harness(SPEAK + "while True: say(jsonrpc='2.0', id=1, method='note', params={})")
    limits = HarnessLimits(messages=100)
    with HarnessProcess.start(place, manifest, isolated=isolated, limits=limits) as process:
        for _ in range(100):
            assert process.receive(20) is not None
        with pytest.raises(PolicyFailure, match="more than 100 messages"):
            process.receive(20)


def test_a_flood_on_stderr_is_bounded_and_blocks_nobody(harness: Make, isolated: bool) -> None:
    program = SPEAK + "sys.stderr.write('a' * 5_000_000 + 'the end')\nsay(x=1)\n"
    place, manifest = harness(program)
    with HarnessProcess.start(place, manifest, isolated=isolated, limits=HarnessLimits(log_bytes=10_000)) as process:
        assert process.receive(20) == {"x": 1}
        ended = process.finish(5)
    assert len(ended.log) < 11_000
    assert ended.log.startswith("aaa")
    assert "bytes dropped" in ended.log
    assert ended.log.endswith("the end")


def test_silence(harness: Make, isolated: bool) -> None:
    with HarnessProcess.start(*harness("import time; time.sleep(3600)"), isolated=isolated) as process:
        with pytest.raises(Silent, match="no message for"):
            process.receive(0.5)
        assert process.finish(0.1).killed


def test_closing_stdout_and_staying(harness: Make, isolated: bool) -> None:
    place, manifest = harness("import os, time; os.close(1); time.sleep(3600)")
    with HarnessProcess.start(place, manifest, isolated=isolated) as process:
        with contextlib.suppress(Silent):  # in a jail its keeper holds the pipe open too
            assert process.receive(1) is None
        assert process.finish(0.2).killed


def test_never_reading_does_not_block_the_driver(harness: Make, isolated: bool) -> None:
    place, manifest = harness(SPEAK + "say(x=1)\ntime.sleep(3600)")
    limits = HarnessLimits(write_seconds=0.5)
    with HarnessProcess.start(place, manifest, isolated=isolated, limits=limits) as process:
        assert process.receive(20) == {"x": 1}
        with pytest.raises(PolicyFailure, match="reads no answer"):
            process.send(wire.answer(1, "x" * 10_000_000))


def test_both_sides_writing_at_once(harness: Make, isolated: bool) -> None:
    program = SPEAK + (
        "say(x='a' * 3_000_000)\n"
        "for n in range(20): say(n=n, x='b' * 200_000)\n"
        "assert len(sys.stdin.readline()) > 5_000_000\nsay(done=1)\n"
    )
    with HarnessProcess.start(*harness(program), isolated=isolated) as process:
        assert process.receive(20) is not None
        process.send(wire.answer(1, "y" * 5_000_000))
        for n in range(20):
            message = process.receive(20)
            assert message is not None
            assert message["n"] == n
        assert process.receive(20) == {"done": 1}
        assert process.finish(5).code == 0


def test_sending_from_several_threads_never_mixes_lines(harness: Make, isolated: bool) -> None:
    program = SPEAK + "say(x=1)\nfor _ in range(40): assert len(json.loads(sys.stdin.readline())['result']) == 50_000\n"
    with HarnessProcess.start(*harness(program), isolated=isolated) as process:
        assert process.receive(20) == {"x": 1}

        def send(number: int) -> None:
            for _ in range(10):
                process.send(wire.answer(number, str(number) * 50_000))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended = process.finish(10)
    assert (ended.code, ended.log) == (0, "")


def test_sending_to_a_dead_harness_is_harmless(harness: Make, isolated: bool) -> None:
    with HarnessProcess.start(*harness("raise SystemExit(3)"), isolated=isolated) as process:
        assert process.receive(20) is None
        for _ in range(100):
            process.send(wire.answer(1, "x" * 10_000))
        assert process.finish(5).code == 3


def test_killing_from_another_thread(harness: Make, isolated: bool) -> None:
    place, manifest = harness(SPEAK + "say(x=1)\ntime.sleep(3600)")
    with HarnessProcess.start(place, manifest, isolated=isolated) as process:
        assert process.receive(20) == {"x": 1}
        killer = threading.Timer(0.3, process.kill)
        killer.start()
        assert process.receive(60) is None
        killer.join()
        assert process.receive(60) is None
        process.send(wire.answer(1, "x" * 1_000_000))
        ended = process.finish(5)
    assert (ended.code, ended.killed) == (137, True)


def test_children_go_with_it(harness: Make, isolated: bool, tmp_path: Path) -> None:
    token = f"stay-{os.getpid()}-{tmp_path.name}"
    program = (
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)', '{token}'])"
    )
    with HarnessProcess.start(*harness(program), isolated=isolated) as process:
        assert process.receive(20) is None
        process.finish(5)
    assert gone(token)


def test_a_program_that_does_not_exist(harness: Make, isolated: bool) -> None:
    place, manifest = harness("", command=("no-such-program",))
    if not isolated:
        with pytest.raises(ConfigError, match="no-such-program"):
            HarnessProcess.start(place, manifest, isolated=False)
        return
    with HarnessProcess.start(place, manifest) as process:
        assert process.receive(20) is None
        ended = process.finish(5)
        assert ended.code != 0
        assert "no-such-program" in ended.log


def test_frozen_environment(harness: Make, isolated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_SECRET", "canary-4711")
    place, manifest = harness(SPEAK + "say(env=dict(os.environ), hash=hash('x'), prefix=sys.prefix)")
    seen = []
    for _ in range(2):
        with HarnessProcess.start(place, manifest, isolated=isolated) as process:
            message = process.receive(20)
            process.finish(5)
        assert message is not None
        own = message["env"].pop("HOME")
        assert message["env"].pop("TMPDIR") == own
        assert isolated == (own == "/tmp")
        assert isolated or not Path(own).exists()
        seen.append(message)
    assert seen[0] == seen[1]
    env = seen[0]["env"]
    assert "canary-4711" not in str(env)
    assert env.keys() <= {*jail.PINS, "PATH", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}
    assert env["PYTHONHASHSEED"] == "0"
    assert seen[0]["prefix"] == sys.prefix


def test_a_jail_that_cannot_start_is_not_the_harness_s_fault(jailed: None, harness: Make) -> None:
    place, manifest = harness("")
    process = HarnessProcess.start(place / "missing", manifest)
    assert process.receive(20) is None
    with pytest.raises(SandboxFailure, match="jail of the harness could not start"):
        process.finish(5)


def test_pretending_that_the_jail_failed_fools_nobody(jailed: None, harness: Make) -> None:
    place, manifest = harness("import sys; print('confinement: no space', file=sys.stderr); sys.exit(125)")
    with HarnessProcess.start(place, manifest) as process:
        assert process.receive(20) is None
        assert process.finish(5).code == 125


def test_nothing_survives_a_killed_driver(jailed: None, harness: Make, tmp_path: Path) -> None:
    token = f"orphan-{os.getpid()}-{tmp_path.name}"
    program = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"command = [sys.executable, '-c', 'import time; time.sleep(3600)', '{token}']\n"
        "subprocess.Popen(command, start_new_session=True)\n"
        "print('{}', flush=True)\ntime.sleep(3600)\n"
    )
    place, _ = harness(program)
    driver = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from harnesstrain.core.records.harness import Manifest
        from harnesstrain.harness.process import HarnessProcess
        manifest = Manifest(name="t", command=("python", "main.py", {token!r}), surface=("a/**",))
        process = HarnessProcess.start(Path({str(place)!r}), manifest)
        print(process.receive(20), flush=True)
        time.sleep(3600)
    """)
    started = subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE)
    try:
        assert started.stdout is not None
        assert started.stdout.readline().strip() == b"{}"
        assert processes_with(token)
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
        if started.stdout is not None:
            started.stdout.close()
    assert gone(token)


def test_a_bounded_log_keeps_head_and_tail() -> None:
    log = BoundedLog(10)
    for number in range(100):
        log.feed(b"%02d" % number)
    assert log.text() == "00010\n[… 190 bytes dropped …]\n79899"
    short = BoundedLog(10)
    short.feed(b"abc")
    short.feed(b"\xff")
    assert short.text() == "abc\ufffd"
