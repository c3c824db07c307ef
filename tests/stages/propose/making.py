"""Projects to propose in, and the agents that do it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from harnesstrain.core.events import Bus, Event
from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.settings import load
from harnesstrain.harness import template
from harnesstrain.measure.context import Context
from harnesstrain.measure.project import open_context
from harnesstrain.stages import propose
from harnesstrain.stages.propose.base import Estimator

TINY = """[harness]
name = "tiny"
command = ["python", "-m", "agent"]
surface = ["agent/**", "prompts/*.md"]
"""
TINY_FILES = {"harness.toml": TINY, "agent/main.py": "print(1)\n", "prompts/system.md": "Hi.\n"}
CANARY = "canary-7f3a91c2"


class Heard:
    """An observer that remembers, and can do something at the first word of progress."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.then: dict[str, Any] = {}

    def on(self, event: Event) -> None:
        self.events.append(event)
        for word, action in self.then.items():
            if word in event.message:
                action()

    def said(self, kind: str) -> list[str]:
        return [event.message for event in self.events if event.kind == kind]


class Project:
    """A harness repo with its settings, opened."""

    def __init__(
        self,
        root: Path,
        toml: str,
        *,
        environ: Mapping[str, str],
        tiny: bool = True,
        policy: str = "Keep it simple.\n",
        manifest: str = "",
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.environ = {"PATH": os.environ["PATH"], "CANARY": CANARY, **environ}
        self.heard = Heard()
        self.stop = threading.Event()
        source = None
        if tiny:
            source = root.parent / f"{root.name}-source"
            for name, text in TINY_FILES.items():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                (source / name).write_text(text + (manifest if name == "harness.toml" else ""))
        extra = {"ht.toml": toml, **({"program.md": policy} if tiny else {}), **(files or {})}
        self.base = template.create(root, source=source, extra={name: text.encode() for name, text in extra.items()})
        if source is not None:
            shutil.rmtree(source)
        self.context: Context = open_context(
            load(root, self.environ, {}), environ=self.environ, bus=Bus(self.heard), stop=self.stop
        )

    def propose(self, estimator: Estimator | None = None, *, epoch: int | None = None) -> Candidate:
        return propose.run(self.context, propose.ProposeSpec(base=self.base, epoch=epoch), estimator)

    def transcript(self, candidate: Candidate) -> str:
        assert candidate.transcript is not None
        return self.context.store.blob(candidate.transcript).decode()

    def file(self, candidate: Candidate, path: str) -> str:
        assert candidate.commit is not None
        data = self.context.repo.file(candidate.commit, path)
        assert data is not None
        return data.decode()

    def close(self) -> None:
        self.context.close()
        self.context.store.close()


def agent_toml(*command: str, **more: object) -> str:
    """Settings for the agent estimator.  Without a command, `more` names a backend."""
    values = {**({"command": list(command)} if command else {}), **more}
    lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
    return "\n".join(["[loop]", 'estimator = "agent"', "[estimator.agent]", *lines, ""])


def script(text: str, **more: object) -> str:
    """Settings for an agent that is a shell script."""
    return agent_toml("sh", "-c", text, **more)


def running(mark: str) -> list[psutil.Process]:
    """Processes with `mark` among their arguments, this one and its parents apart."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if process.pid not in own and any(mark in part for part in process.info["cmdline"] or ()):
            found.append(process)
    return found


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return str(value)
