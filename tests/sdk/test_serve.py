"""A whole harness process: its exit codes, and a protocol that stray output cannot break."""

from __future__ import annotations

import ast
import json
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harnesstrain import sdk
from tests.sdk.peer import TASK

SDK = Path(sdk.__file__)


class Process:
    """A harness running `source`, with `ht_sdk.py` beside it."""

    def __init__(self, directory: Path, source: str) -> None:
        shutil.copy(SDK, directory / "ht_sdk.py")
        (directory / "main.py").write_text(textwrap.dedent(source))
        self.popen = subprocess.Popen(
            [sys.executable, "main.py"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.popen.stdin
        assert self.popen.stdout
        self.stdin, self.stdout = self.popen.stdin, self.popen.stdout

    def receive(self) -> dict[str, Any]:
        line = self.stdout.readline()
        assert line, "the harness sent nothing"
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    def answer(self, request: dict[str, Any], result: Any) -> None:
        self.stdin.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n")
        self.stdin.flush()

    def begin(self) -> None:
        request = self.receive()
        assert request["method"] == "initialize"
        self.answer(request, {"protocol": 1, "task": TASK})

    def end(self) -> tuple[int, str]:
        out, log = self.popen.communicate(timeout=30)
        assert out == b""
        return self.popen.returncode, log.decode()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    started: list[Process] = []

    def run(source: str) -> Process:
        started.append(Process(tmp_path, source))
        return started[-1]

    yield run
    for process in started:
        if process.popen.poll() is None:
            process.popen.kill()
        process.popen.communicate()


def test_submit_then_exit_zero(start: Any) -> None:
    process = start("from ht_sdk import serve\nserve(lambda ep: ep.submit())")
    process.begin()
    process.answer(process.receive(), None)
    assert process.end() == (0, "")


def test_returning_without_submit_is_exit_zero(start: Any) -> None:
    process = start("from ht_sdk import serve\nserve(lambda ep: None)")
    process.begin()
    assert process.end() == (0, "")


def test_an_exception_is_exit_one_with_its_traceback(start: Any) -> None:
    process = start("from ht_sdk import serve\ndef solve(ep):\n    raise KeyError('broken here')\nserve(solve)")
    process.begin()
    code, log = process.end()
    assert code == 1
    assert "broken here" in log
    assert "Traceback" in log


def test_stray_output_goes_to_the_log(start: Any) -> None:
    process = start(
        """
        import os, subprocess
        from ht_sdk import serve

        def solve(ep):
            print("a stray print")
            os.write(1, b"a stray write\\n")
            subprocess.run(["sh", "-c", "echo a stray child; cat"], check=True)
            try:
                input()
            except EOFError:
                ep.note(stdin="empty")

        serve(solve)
        """
    )
    process.begin()
    request = process.receive()
    assert (request["method"], request["params"]) == ("note", {"stdin": "empty"})
    process.answer(request, None)
    code, log = process.end()
    assert code == 0
    for text in ("a stray print", "a stray write", "a stray child"):
        assert text in log


@pytest.mark.parametrize("late", [False, True])
def test_the_same_numbers_are_drawn_each_time(start: Any, late: bool) -> None:
    drawn = [random.Random(0).random()]
    early, number = ("", "__import__('random').random()") if late else ("import random\n", "random.random()")
    for _ in range(2):
        process = start(f"{early}from ht_sdk import serve\nserve(lambda ep: ep.note(n={number}))")
        process.begin()
        request = process.receive()
        drawn.append(request["params"]["n"])
        process.answer(request, None)
        assert process.end() == (0, "")
    assert drawn[0] == drawn[1] == drawn[2]


def test_end_of_file_ends_a_waiting_harness_quietly(start: Any) -> None:
    process = start(
        """
        from ht_sdk import serve

        def solve(ep):
            while True:
                try:
                    ep.run("true")
                except Exception:
                    pass

        serve(solve)
        """
    )
    process.begin()
    process.receive()
    assert process.end() == (0, "")


def test_it_is_plain_old_python() -> None:
    tree = ast.parse(SDK.read_text(), feature_version=(3, 8))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names)
    assert not imported & {"time", "datetime", "random", "secrets", "uuid", "socket", "subprocess"}
