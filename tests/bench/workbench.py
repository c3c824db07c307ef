"""A project on the synthetic workload, measured through the product's own evaluation.

Nothing is short-cut: the harness is a process in its jail with the vendored SDK, every reply and action passes the
protocol, records and traces are written.  Only the model and, where it is scripted, the environment do no work.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from harnesstrain.core.records.rollout import StepKind
from harnesstrain.harness.template import create
from harnesstrain.stages import evaluate
from harnesstrain.trainer import Trainer
from tests.bench.environment import OBSERVATION, STEPS, TASK, Counted
from tests.bench.spent import Spent, spent
from tests.bench.workload import Shape, instruction

SCRIPTED = "tests.bench.environment:ScriptedSandbox"
KEEPING = "tests.bench.environment:KeepingSandbox"
LOCAL = "tests.bench.environment:CountedLocal"
MANIFEST = """\
[harness]
name = "bench"
command = ["python", "-m", "agent.main"]
surface = ["agent/**"]
"""
AGENT = """\
import json

from ht_sdk import Episode, serve

TOOLS = [
    {"type": "function", "function": {"name": "run", "description": "Run a shell command.", "parameters": {
        "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}},
    {"type": "function", "function": {"name": "submit", "description": "Hand in the work.", "parameters": {
        "type": "object", "properties": {}}}},
]


def solve(ep: Episode) -> None:
    messages = [{"role": "user", "content": ep.task.instruction}]
    number = 0
    while True:
        #COUNT
        reply = ep.complete(messages, tools=TOOLS)
        (call,) = reply.tool_calls
        if call.name == "submit":
            break
        number += 1
        command = json.loads(call.arguments)["command"]
        #CHANGE
        shown = ep.run(command)
        messages.append(reply.message())
        messages.append({"role": "tool", "tool_call_id": call.id, "content": shown.stdout})
    ep.submit()


serve(solve)
"""
SETTINGS = """\
[llm]
engine = "{engine}"
script = "rules.py"
context_length = 1000000000

[llm.sampling]
max_tokens = 4096

[sandbox]
kind = "{sandbox}"

[panel]
path = "panel.toml"

[budgets]
steps = 100000
actions = 100000
tokens = 1000000000000
time = 1000000.0

[loop]
estimator = "patches"

[estimator.patches]
dir = "patches"
"""
TASK_TOML = """\
schema_version = "1.4"

[task]
name = "bench/{name}"
description = "Take many steps."

[environment]
network_mode = "no-network"

[environment.env]
{task} = "{name}"
{steps} = "{count}"
{observation} = "{size}"
"""
VERIFIER = """\
#!/bin/sh
mkdir -p /logs/verifier
if [ "$(cat /app/.n)" = {count} ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@dataclass(frozen=True)
class Measured:
    """One evaluation: what it cost and, exactly, what it did."""

    run: str
    rollouts: int
    steps: int
    """Recorded environment actions."""
    calls: int
    """Requests the model was asked; those answered from a cache do not count."""
    executions: int
    """Actions that an environment executed."""
    opened: tuple[int, ...]
    """For each environment that was started: actions behind the state it started from."""
    grades: int
    kept: int
    spent: Spent

    @property
    def per_step(self) -> float:
        """Milliseconds of processor time a step, of all processes."""
        return 1000 * self.spent.cpu / self.steps

    def share(self, seconds: float) -> float:
        """Milliseconds a step."""
        return 1000 * seconds / self.steps


class Workbench:
    """A project in a temporary folder, opened.  Use it as a context manager."""

    def __init__(
        self,
        shape: Shape,
        *,
        sandbox: str = SCRIPTED,
        engine: str = "scripted",
        agent: str = AGENT,
        jobs: int = 2,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.shape = shape
        self._agent = agent
        self._folder = tempfile.TemporaryDirectory(prefix="ht-bench-")
        self.root = Path(self._folder.name) / "repo"
        self._create(SETTINGS.format(engine=engine, sandbox=sandbox))
        settings = {"HT_JOBS": str(jobs), "PATH": os.environ["PATH"], **(environ or {})}
        self.trainer = Trainer(self.root / "ht.toml", environ=settings)
        self.commit = self.trainer.context.repo.head()

    def __enter__(self) -> Workbench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.trainer.close()
        self._folder.cleanup()

    def evaluate(self, commit: str | None = None, fresh: str = "", include: tuple[str, ...] = ()) -> Measured:
        """Measure a commit (None: the baseline) through the product's own stage.  Every task must be solved."""
        context = self.trainer.context
        devices = context.devices
        counted = getattr(devices.bench.sandbox, "counted", None) or Counted()
        calls, executions = devices.bench.model.counts().live, counted.executions
        opened, grades, kept = len(counted.opened), counted.grades, counted.kept
        before = spent()
        done = evaluate.run(context, evaluate.EvaluateSpec(commit=commit or self.commit, fresh=fresh, include=include))
        cost = spent() - before
        rollouts = context.store.rollouts(done.run)
        if not done.complete or done.solved != done.cells:
            worst = next((one for one in rollouts if not one.solved), None)
            said = f"{worst.outcome}: {worst.detail}" if worst else f"{done.done} of {done.cells} cells"
            raise RuntimeError(f"the measured run went wrong: {said}")
        return Measured(
            run=done.run,
            rollouts=len(rollouts),
            steps=sum(one.actions for one in rollouts),
            calls=devices.bench.model.counts().live - calls,
            executions=counted.executions - executions,
            opened=tuple(counted.opened[opened:]),
            grades=counted.grades - grades,
            kept=counted.kept - kept,
            spent=cost,
        )

    def candidate(self, agent: str, subject: str = "Change the harness") -> str:
        """A commit with another agent on top of the baseline."""
        (self.root / "agent" / "main.py").write_text(agent)
        self.git("commit", "--quiet", "--all", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def commented(self) -> str:
        """A candidate that differs in a comment."""
        return self.candidate(self._agent.replace("number = 0", "number = 0  # actions so far"), "Explain the counter")

    def diverging(self, action: int) -> str:
        """A candidate that changes every command from `action` on."""
        changed = f'command += " # other" if number >= {action} else ""'
        return self.candidate(self._agent.replace("#CHANGE", changed), f"Change commands from {action} on")

    def bytes_said(self, run: str) -> int:
        """Bytes of all observations and completions of a run."""
        store = self.trainer.context.store
        total = 0
        for rollout in store.rollouts(run):
            for step in store.trace(rollout.id).steps:
                if step.kind is StepKind.LLM:
                    said = (step.content, step.reasoning, step.tool_calls)
                    total += sum(len(one.encode()) for one in said if one)
                else:
                    total += len(step.stdout or b"") + len(step.stderr or b"")
        return total

    def bytes_kept(self, *names: str) -> int:
        """Bytes on disk below the store's folder: of all files, or of those whose path begins with one of `names`."""
        state = self.root / ".ht"
        files = [path for path in state.rglob("*") if path.is_file() and not path.is_symlink()]
        return sum(
            path.stat().st_size for path in files if not names or path.relative_to(state).as_posix().startswith(names)
        )

    def git(self, *args: str) -> str:
        """Run git in the repo."""
        who = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
        done = subprocess.run(["git", *who, *args], cwd=self.root, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def _create(self, settings: str) -> None:
        source = Path(self._folder.name) / "source"
        (source / "agent").mkdir(parents=True)
        (source / "harness.toml").write_text(MANIFEST)
        (source / "agent" / "__init__.py").write_text("")
        (source / "agent" / "main.py").write_text(self._agent)
        names = list(self.shape.names)
        files = {
            ".gitignore": ".ht/\npatches/\nrules.py\n__pycache__/\n",
            "ht.toml": settings,
            "panel.toml": f'[panel]\nname = "bench"\nsource = "tasks"\ntrain = {names}\n'.replace("'", '"'),
        }
        for name in names:
            files |= {f"tasks/{name}/{path}": data for path, data in self._task(name).items()}
        create(self.root, source=source, extra={path: data.encode() for path, data in files.items()})
        (self.root / "patches").mkdir()
        (self.root / "rules.py").write_text(self.shape.script())

    def _task(self, name: str) -> dict[str, str]:
        values: dict[str, Any] = {"name": name, "count": self.shape.steps, "size": self.shape.observation}
        return {
            "task.toml": TASK_TOML.format(task=TASK, steps=STEPS, observation=OBSERVATION, **values),
            "instruction.md": instruction(self.shape, name),
            "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\n",
            "tests/test.sh": VERIFIER.format(count=self.shape.steps),
        }
