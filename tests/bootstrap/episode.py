"""A harness process driven by scripted replies; its commands run in a directory of the test."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harnesstrain.core.records.llm import Reply
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.harness import protocol
from harnesstrain.harness.wire import ErrorKind, answer, error_answer


@dataclass
class Played:
    """What happened in one episode."""

    ended: str = "gave_up"
    """submitted, gave_up, crashed or step_limit."""
    requests: list[list[dict[str, Any]]] = field(default_factory=list)
    """The whole message list of each model call."""
    commands: list[str] = field(default_factory=list)
    valid: list[bool] = field(default_factory=list)
    log: str = ""

    def told(self, index: int) -> str:
        """The last message before model call `index`."""
        return str(self.requests[index][-1]["content"])


def play(harness: Path, workdir: Path, replies: list[str], instruction: str = "Do it.") -> Played:
    """Run `python -m agent` in `harness`; the model says `replies`, then the step budget is over."""
    played = Played()
    known: dict[str, list[dict[str, Any]]] = {}
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", "agent"],
        cwd=harness,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    view = protocol.TaskView(instruction=instruction, workdir=str(workdir), model="scripted", context_length=4096)
    with process:
        for line in process.stdout:
            call = protocol.read_call(json.loads(line))
            result: Any = None
            match call.params:
                case protocol.Initialize():
                    result = protocol.initialize_result(view)
                case protocol.Complete(messages=sent):
                    if len(played.requests) == len(replies):
                        played.ended = "step_limit"
                        over = error_answer(call.id, ErrorKind.EPISODE_OVER, "no steps left", reason="step_limit")
                        _send(process, over)
                        continue
                    messages = [*known.get(sent.prefix or "", []), *sent.append]
                    handle = f"h{len(known)}"
                    known[handle] = messages
                    played.requests.append(messages)
                    result = protocol.complete_result(Reply(content=replies[len(played.requests) - 1]), handle)
                case protocol.Run(command=command, stdin=stdin):
                    played.commands.append(command)
                    done = subprocess.run(["sh", "-c", command], cwd=workdir, input=stdin or b"", capture_output=True)
                    ran = RunResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)
                    result = protocol.run_result(ran)
                case protocol.Read(path=path):
                    result = protocol.read_result((workdir / path).read_bytes())
                case protocol.Write(path=path, content=content):
                    (workdir / path).write_bytes(content)
                case protocol.Note(data=data):
                    if "valid" in data:
                        played.valid.append(data["valid"])
                case protocol.Submit():
                    played.ended = "submitted"
                case protocol.CountTokens():
                    result = {"tokens": 1}
            _send(process, answer(call.id, result))
        assert process.stderr
        played.log = process.stderr.read().decode()
    if process.returncode:
        played.ended = "crashed"
    return played


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
