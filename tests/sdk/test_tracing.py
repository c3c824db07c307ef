"""Which changed lines ran and which changed files were read, told with the next request."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.harness.template import sdk_source

LOOP = """\
from agent.parts import LIMIT, helper
from pathlib import Path


def solve(ep):
    reply = ep.complete([{"role": "user", "content": "hi"}])
    if reply.content == "bad":
        told = helper(reply)
        ep.note(told=told)
    text = Path("prompts/system.md").read_text()
    ep.note(text=text)
    sorted(Path("prompts/examples").glob("*.md"))
    if reply.content == "end":
        return
    ep.submit()
    unused()
"""
PARTS = """\
LIMIT = 3


def helper(reply):
    if reply:
        return "yes"
    return (
        "no"
    )
"""
TRACE = {
    "agent/loop.py": [[13, 14, "run"], [16, 16, "run"]],
    "agent/parts.py": [[1, 1, "import"], [4, 4, "call"], [6, 6, "run"], [7, 9, "run"]],
    "prompts/system.md": [],
    "prompts/examples/": [],
    "prompts/other.md": [],
}


def play(place: Path, reply: str, main: str = "", files: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The messages of a harness that is told to watch `files`."""
    (place / "agent").mkdir()
    (place / "prompts" / "examples").mkdir(parents=True)
    (place / "ht_sdk.py").write_bytes(sdk_source().read_bytes())
    (place / "agent" / "loop.py").write_text(LOOP)
    (place / "agent" / "parts.py").write_text(PARTS)
    (place / "agent" / "__init__.py").write_text('"""Nothing."""\n')
    (place / "prompts" / "system.md").write_text("be good")
    main = main or "import ht_sdk\nfrom agent.loop import solve\nht_sdk.serve(solve)\n"
    (place / "agent" / "__main__.py").write_text(textwrap.dedent(main))
    command = [sys.executable, "-B", "-m", "agent"]
    said: list[dict[str, Any]] = []
    with subprocess.Popen(command, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            message = json.loads(line)
            said.append(message)
            if "id" not in message:
                continue
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result(message, reply, files)}
            process.stdin.write(json.dumps(answer).encode() + b"\n")
            process.stdin.flush()
        process.stdin.close()
    return said


def result(message: dict[str, Any], reply: str, files: dict[str, Any] | None) -> Any:
    if message["method"] == "initialize":
        assert message["params"]["capabilities"] == ["trace"]
        task = {"instruction": "do", "workdir": "/app", "model": "m", "context_length": 1}
        return {"protocol": 1, "task": task, **({} if files is None else {"trace": {"files": files}})}
    if message["method"] == "llm.complete":
        usage = {"prompt": 1, "cached": 0, "completion": 1, "reasoning": 0}
        more = {"reasoning": "", "tool_calls": [], "finish_reason": "stop", "usage": usage, "handle": "h1"}
        return {"content": reply, **more}
    return None


def ran(messages: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    return [(message["method"], sorted(message["ran"])) for message in messages if "ran" in message]


def test_what_ran_comes_with_the_next_request(tmp_path: Path) -> None:
    said = play(tmp_path, "bad", files=TRACE)
    assert ran(said) == [
        ("llm.complete", ["agent/parts.py:1"]),
        ("note", ["agent/parts.py:4", "agent/parts.py:6"]),
        ("note", ["prompts/system.md"]),
        ("submit", ["agent/loop.py:13", "prompts/examples/"]),
    ]
    assert all("ran" not in message.get("params", {}) for message in said)


def test_lines_that_do_not_run_are_not_told_of(tmp_path: Path) -> None:
    said = play(tmp_path, "good", files=TRACE)
    assert ran(said) == [
        ("llm.complete", ["agent/parts.py:1"]),
        ("note", ["prompts/system.md"]),
        ("submit", ["agent/loop.py:13", "prompts/examples/"]),
    ]


def test_what_ran_after_the_last_request_is_told_at_the_end(tmp_path: Path) -> None:
    said = play(tmp_path, "end", files=TRACE)
    assert ran(said)[-1] == ("ran", ["agent/loop.py:13", "prompts/examples/"])
    assert "id" not in said[-1]


def test_a_crash_is_no_reason_to_keep_quiet(tmp_path: Path) -> None:
    main = """\
        import ht_sdk
        def solve(ep):
            ep.note(a=1)
            fail = True
            raise KeyError("x")
        ht_sdk.serve(solve)
    """
    said = play(tmp_path, "", main, {"agent/__main__.py": [[4, 4, "run"]]})
    assert ran(said) == [("ran", ["agent/__main__.py:4"])]


def test_nothing_is_told_unasked(tmp_path: Path) -> None:
    assert ran(play(tmp_path, "bad")) == []


@pytest.mark.parametrize(
    ("main", "counts"),
    [
        ("import ht_sdk\nTEXT = open('prompts/system.md').read()\nht_sdk.serve(lambda ep: ep.note(a=1))\n", True),
        ("TEXT = open('prompts/system.md').read()\nimport ht_sdk\nht_sdk.serve(lambda ep: ep.note(a=1))\n", True),
        ("import ht_sdk\nht_sdk.serve(lambda ep: ep.note(a=1))\n", False),
    ],
)
def test_files_read_before_anybody_asked_count(tmp_path: Path, main: str, counts: bool) -> None:
    said = play(tmp_path, "", main, {"prompts/system.md": []})
    assert ran(said) == ([("note", ["prompts/system.md"])] if counts else [])


def test_a_harness_that_serves_from_a_running_frame_is_seen(tmp_path: Path) -> None:
    main = """\
        import os
        import sys
        import ht_sdk
        def main():
            ep = ht_sdk.Episode(os.fdopen(0, "rb"), os.fdopen(1, "wb"))
            changed = 1
            ep.submit()
        main()
    """
    said = play(tmp_path, "", main, {"agent/__main__.py": [[4, 4, "call"], [6, 6, "run"]]})
    assert ran(said) == [("submit", ["agent/__main__.py:4", "agent/__main__.py:6"])]


def test_threads_are_watched_too(tmp_path: Path) -> None:
    main = """\
        import threading
        import ht_sdk
        def work():
            return 1
        def solve(ep):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            ep.submit()
        ht_sdk.serve(solve)
    """
    said = play(tmp_path, "", main, {"agent/__main__.py": [[4, 4, "run"]]})
    assert ran(said) == [("submit", ["agent/__main__.py:4"])]
