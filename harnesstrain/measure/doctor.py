"""What this machine can do, each line with the fix for what it cannot."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from harnesstrain.core import confinement
from harnesstrain.core.errors import HtError
from harnesstrain.core.records.base import Record


class Examined(Record):
    """One thing, and whether it can be used here."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    """The next command; empty when ok."""
    needed: bool = True
    """False: an alternative that nobody has to have."""


def examine() -> Iterator[Examined]:
    """Every check, one after another; each costs at most a few seconds."""
    yield Examined(name="python", ok=True, detail=f"{platform.python_version()} on {platform.system()}")
    yield _git()
    yield _jail()
    for kind, needed in (("local", True), ("docker", False)):
        yield _guarded(f"sandbox {kind}", needed, lambda kind=kind: _sandbox(kind))  # type: ignore[misc]
    yield _guarded("embedded engine", True, _engine)
    yield _guarded("model file", True, _weights)
    yield _gpu()
    yield _extra("sglang", "`pip install 'harnesstrain[sglang]'`, on a machine with a GPU")
    for program, what in (("claude", "Claude Code"), ("codex", "Codex")):
        yield _agent(program, what)


def _git() -> Examined:
    found = shutil.which("git")
    if found is None:
        return Examined(name="git", ok=False, detail="not installed", fix="`apt-get install git`")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return Examined(name="git", ok=True, detail=version)


def _jail() -> Examined:
    why = confinement.unavailable()
    if why is None:
        return Examined(name="jail", ok=True, detail="bubblewrap works: harnesses and estimators run confined")
    return Examined(name="jail", ok=False, detail=why, fix="`apt-get install bubblewrap`; allow user namespaces")


def _sandbox(kind: str) -> tuple[str, str]:
    from harnesstrain.sandbox.kinds import open_sandbox

    sandbox = open_sandbox(kind)
    try:
        can = sandbox.capabilities()
    finally:
        sandbox.close()
    facts = ["isolated" if can.isolated else "NOT isolated", f"network {', '.join(can.network_modes)}"]
    facts += ["forks for grading"] if can.forks else []
    facts += ["keeps states"] if can.snapshots else []
    if kind == "docker":
        from harnesstrain.sandbox.project import client_argv

        facts.append("several containers" if client_argv() else "one container a task: no `docker compose` is here")
    return ", ".join([*facts, *can.notes]), ""


def _engine() -> tuple[str, str]:
    from harnesstrain.llm.embedded.library import build, load

    load()
    return f"{build().library}, {build().isa}", ""


def _weights() -> tuple[str, str]:
    from harnesstrain.llm.models.pull import listing

    default = next(one for one in listing() if one.default)
    if default.path is None:
        raise HtError(f"{default.name} ({default.size / 1e9:.1f} GB) is not here", hint="`ht model pull`")
    return f"{default.name}, {default.size / 1e9:.1f} GB", ""


def _gpu() -> Examined:
    found = shutil.which("nvidia-smi")
    if found is None:
        return Examined(name="gpu", ok=False, detail="none seen", fix="serve the model elsewhere: --url", needed=False)
    asked = subprocess.run(
        [found, "--query-gpu=name,memory.total", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    ok = asked.returncode == 0 and bool(asked.stdout.strip())
    detail = asked.stdout.strip().replace("\n", "; ") or "nvidia-smi answers no GPU"
    return Examined(name="gpu", ok=ok, detail=detail, fix="" if ok else "check the driver", needed=False)


def _extra(module: str, fix: str) -> Examined:
    there = importlib.util.find_spec(module) is not None
    return Examined(
        name=module, ok=there, detail="installed" if there else "not installed", fix="" if there else fix, needed=False
    )


def _agent(program: str, what: str) -> Examined:
    found = shutil.which(program)
    fix = "" if found else f"install {what} to use it as an estimator"
    return Examined(
        name=program,
        ok=found is not None,
        detail=Path(found).as_posix() if found else "not installed",
        fix=fix,
        needed=False,
    )


def _guarded(name: str, needed: bool, look: Callable[[], tuple[str, str]]) -> Examined:
    try:
        detail, fix = look()
    except HtError as error:
        return Examined(name=name, ok=False, detail=error.message, fix=error.hint or "", needed=needed)
    return Examined(name=name, ok=True, detail=detail, fix=fix, needed=needed)
