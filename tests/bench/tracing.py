"""Processor time of the shipped harness for one step, with its changed lines traced, against the same without.

A step: it asks the model, parses the reply, runs a command, and shows 2,000 bytes of output.  The process is the
harness alone, answered over its pipes; starts are subtracted.  Traced twice: as a candidate that changed how replies
are parsed and repaired, which is what is compared; and with every line of every file changed, which is told beside it.
Lines that never run keep the tracing on to the end.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harnesstrain.core.records.harness import Changes
from harnesstrain.core.records.llm import Reply
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.harness import protocol
from harnesstrain.harness.template import create
from harnesstrain.harness.tracing import watches
from tests.bench.result import Result
from tests.bench.scale import Scale

ID = "tracing"
TARGET = 1.5
CHANGED = ("agent/parsing.py", "agent/repair.py")
TASK = protocol.TaskView(instruction="Do it.", workdir="/app", model="scripted", context_length=1_000_000)


def measure(scale: Scale) -> Result:
    """The ratio of both."""
    with tempfile.TemporaryDirectory(prefix="ht-bench-") as place:
        root = Path(place, "harness")
        create(root)
        every = {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.glob("agent/*.py"))}
        some = {path: text for path, text in every.items() if path in CHANGED}
        plain, traced, whole = _milliseconds(root, [None, _changes(some), _changes(every)], scale)
    detail = (
        f"{traced:.3f} ms CPU a step traced as a change of {' and '.join(CHANGED)}, {plain:.3f} ms not traced; with "
        f"every line of {len(every)} files changed {whole:.3f} ms ({whole / plain:.2f} ×); "
        f"{'sys.monitoring' if hasattr(sys, 'monitoring') else 'sys.settrace'}"
    )
    return Result.at_most(ID, traced / plain, TARGET, "× of not traced", detail)


def _changes(files: Mapping[str, str]) -> Changes:
    """As if every line of the files had changed."""
    others = {path: "\n".join(text for name, text in files.items() if name != path) for path in files}
    found = {path: watches(text, range(1, text.count("\n") + 2), others[path]) for path, text in files.items()}
    return Changes(base="b" * 40, files=found)


def _milliseconds(root: Path, variants: list[Changes | None], scale: Scale) -> list[float]:
    """A step's, the median of several pairs of a short and a long episode; the variants take turns."""
    found: list[list[float]] = [[] for _ in variants]
    few, many = max(scale.steps // 10, 1), scale.steps
    for _ in range(2 * scale.repeats + 1):
        for seen, changes in zip(found, variants, strict=True):
            seen.append(1000 * (_episode(root, many, changes) - _episode(root, few, changes)) / (many - few))
    return [statistics.median(seen) for seen in found]


def _episode(root: Path, steps: int, changes: Changes | None) -> float:
    """Seconds of processor time of a harness process that takes so many steps."""
    act = json.dumps({"tool": "run", "command": "make test"})
    shown = protocol.run_result(RunResult(exit_code=0, stdout=b"x" * 2000))
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", "agent"], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    calls = 0
    for line in process.stdout:
        message: dict[str, Any] = json.loads(line)
        if "id" not in message:
            continue
        result: Any = None
        if message["method"] == "initialize":
            result = protocol.initialize_result(TASK, changes)
        elif message["method"] == "llm.complete":
            calls += 1
            reply = Reply(content=act if calls <= steps else '{"tool": "submit"}')
            result = protocol.complete_result(reply, f"h{calls}")
        elif message["method"] == "env.run":
            result = shown
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
        process.stdin.flush()
    process.stdin.close()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, calls) == (0, steps + 1)
    return usage.ru_utime + usage.ru_stime
