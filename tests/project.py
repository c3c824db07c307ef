"""A small harness repo to run the whole loop on: three tasks, a harness whose skills are files, patches that add some.

The harness solves the tasks whose names are in `agent/skills/`; `agent/broken/` takes one away; `agent/random/` makes
it run a command whose output never repeats.  A patch adds one such file, so every patch applies to every baseline.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harnesstrain.core.settings import load
from harnesstrain.harness.template import create
from harnesstrain.store import Store

TASKS = ("one", "two", "three")
AGENT = """\
from pathlib import Path

from ht_sdk import Episode, serve

HERE = Path(__file__).parent


def has(kind: str, name: str) -> bool:
    return (HERE / kind / name).exists()


def solve(ep: Episode) -> None:
    name = ep.task.instruction.split()[-1]
    messages = [{"role": "user", "content": ep.task.instruction}]
    for _ in range(2):
        reply = ep.complete(messages)
        ep.note(valid=reply.content == "ok")
        messages += [reply.message(), {"role": "user", "content": ep.run("ls").stdout}]
    if has("random", name):
        ep.run("head -c 9 /dev/urandom | sha256sum")
    if has("crash", name):
        raise RuntimeError("no idea how to do " + name)
    if has("skills", name) and not has("broken", name):
        ep.run("touch " + name)
    ep.submit()


serve(solve)
"""
CHECK = """\
import sys
from pathlib import Path

if Path('agent/fail').exists():
    sys.exit('1 test failed: agent/fail')
"""
MANIFEST = """\
[harness]
name = "tiny"
command = ["python", "-m", "agent.main"]
surface = ["agent/**"]
check = ["python", "check.py"]
"""
SETTINGS = """\
[llm]
engine = "scripted"
script = "rules.jsonl"

[sandbox]
kind = "local"

[panel]
path = "panel.toml"

[loop]
estimator = "patches"

[estimator.patches]
dir = "patches"
"""
TASK = """\
schema_version = "1.4"

[task]
name = "tiny/{name}"
description = "Make a file."

[environment]
network_mode = "no-network"
"""
TEST = """\
#!/bin/sh
mkdir -p /logs/verifier
if [ -e /app/{name} ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
RULES = '{"reply": "ok", "duration": 1.0}\n'


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of stdout."""
        return self.out.splitlines()


@dataclass(frozen=True)
class Project:
    """A harness repo and how commands run in it."""

    root: Path
    cache: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a command: nothing of the caller's but PATH."""
        scripts = str(Path(sys.executable).parent)
        return {
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "HOME": str(self.cache),
            "XDG_CACHE_HOME": str(self.cache),
            "TMPDIR": str(self.temporary),
            "GIT_CONFIG_NOSYSTEM": "1",
            **self.env,
            **more,
        }

    @property
    def temporary(self) -> Path:
        """Where commands put temporary files; empty when none runs."""
        place = self.root.parent / "tmp"
        place.mkdir(exist_ok=True)
        return place

    def ht(self, *args: str, stdin: str = "", cwd: Path | None = None, timeout: float = 120, **env: str) -> Ran:
        """Run `ht` to its end."""
        done = subprocess.run(
            self.argv(*args),
            cwd=cwd or self.root,
            env=self.environment(**env),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def argv(self, *args: str) -> list[str]:
        """The command line of `ht`."""
        return [sys.executable, "-m", "harnesstrain.cli.app", *args]

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        """Start `ht`, in a process group of its own."""
        return subprocess.Popen(
            self.argv(*args),
            cwd=self.root,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def git(self, *args: str) -> str:
        """Run git in the repo."""
        identity = {"GIT_AUTHOR_NAME": "User", "GIT_AUTHOR_EMAIL": "u@example.org"}
        identity |= {"GIT_COMMITTER_NAME": "User", "GIT_COMMITTER_EMAIL": "u@example.org"}
        run = subprocess.run(
            ["git", *args], cwd=self.root, env=self.environment(**identity), capture_output=True, check=True
        )
        return run.stdout.decode().strip()

    def store(self) -> Store:
        """The store, opened.  Close it."""
        return Store.open(self.root / ".ht")

    def settings(self, **flags: Any) -> Any:
        """The settings that hold here."""
        return load(self.root, self.environment(), flags)

    def patch(self, name: str, path: str, subject: str = "") -> Path:
        """A patch that adds the file `path`."""
        folder = self.root / "patches"
        folder.mkdir(exist_ok=True)
        file = folder / f"{name}.patch"
        file.write_text(
            f"Subject: {subject or name}\n\ndiff --git a/{path} b/{path}\nnew file mode 100644\n"
            f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+yes\n"
        )
        return file

    def rules(self, text: str) -> None:
        """Replace the model's script."""
        (self.root / "rules.jsonl").write_text(text)


def make_project(
    place: Path,
    cache: Path,
    *,
    skills: Sequence[str] = ("two",),
    patches: Mapping[str, str] | None = None,
    settings: str = "",
    tasks: Sequence[str] = TASKS,
    files: Mapping[str, str] | None = None,
) -> Project:
    """A project below `place`.  `patches`: file that each adds, by name.  `settings`: appended to ht.toml."""
    source = place / "source"
    (source / "agent" / "skills").mkdir(parents=True)
    (source / "harness.toml").write_text(MANIFEST)
    (source / "check.py").write_text(CHECK)
    (source / "agent" / "__init__.py").write_text("")
    (source / "agent" / "main.py").write_text(AGENT)
    for name in skills:
        (source / "agent" / "skills" / name).write_text("yes\n")
    extra = {
        ".gitignore": ".ht/\npatches/\nrules.jsonl\n__pycache__/\n",
        "ht.toml": SETTINGS + settings,
        "panel.toml": f'[panel]\nname = "tiny"\nsource = "tasks"\ntrain = {list(tasks)}\n'.replace("'", '"'),
        **(files or {}),
    }
    for name in tasks:
        folder = f"tasks/{name}"
        extra[f"{folder}/task.toml"] = TASK.format(name=name)
        extra[f"{folder}/instruction.md"] = f"Make /app/NAME, where NAME is {name}\n"
        extra[f"{folder}/environment/Dockerfile"] = "FROM python:3.11-slim\nWORKDIR /app\n"
        extra[f"{folder}/tests/test.sh"] = TEST.format(name=name)
    root = place / "repo"
    create(root, source=source, extra={path: text.encode() for path, text in extra.items()})
    project = Project(root, cache)
    project.rules(RULES)
    for name, path in (patches or {}).items():
        project.patch(name, path)
    return project
