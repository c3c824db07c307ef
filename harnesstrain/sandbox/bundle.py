"""Sending the agent into a sandbox: its modules in one message, compiled beforehand where the interpreter is known."""

from __future__ import annotations

import functools
import json
import subprocess
from importlib import resources

PACKAGE = "harnesstrain.sandbox.agent"
MODULES = ("stream", "processes", "files", "sending", "command", "serve")
"""In order of import."""

BOOT = """
import os, sys
def take(n):
    data = b""
    while len(data) < n:
        more = os.read(0, n - len(data))
        if not more: os._exit(0)
        data += more
    return data
def line():
    text = b""
    while not text.endswith(b"\\n"): text += take(1)
    return text.split()
os.write(1, b"READY python %d\\n" % sys.version_info[1])
form, size = line()
data = take(int(size))
if form == b"compiled":
    import marshal
    codes = marshal.loads(data)
else:
    import json
    codes = [(name, compile(text, name, "exec")) for name, text in json.loads(data.decode())]
make = type(sys)
for name in PARENTS: sys.modules[name] = make(name)
for name, code in codes:
    module = sys.modules[name] = make(name)
    parent, _, short = name.rpartition(".")
    setattr(sys.modules[parent], short, module)
    exec(code, module.__dict__)
sys.modules[codes[-1][0]].Agent().serve()
""".replace("PARENTS", repr(["harnesstrain", "harnesstrain.sandbox", PACKAGE]))
"""What `python3 -c` runs: says READY, takes the modules, serves."""

_COMPILE = """
import json, marshal, sys
if sys.version_info < (3, 8): sys.exit(1)
codes = [(name, compile(text, name, "exec", optimize=2)) for name, text in json.load(sys.stdin)]
sys.stdout.buffer.write(marshal.dumps(codes))
"""

SHELL_AGENT = "agent.sh"


@functools.cache
def sources() -> bytes:
    """The agent's modules as JSON: [[name, text]…]."""
    folder = resources.files("harnesstrain.sandbox") / "agent"
    texts = [[f"{PACKAGE}.{name}", (folder / f"{name}.py").read_text()] for name in MODULES]
    return json.dumps(texts).encode()


@functools.cache
def compiled(python: str) -> bytes | None:
    """The modules compiled by `python` (the interpreter that the sandbox has too); None when it cannot run them."""
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _COMPILE], input=sources(), capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def message(python: str | None) -> bytes:
    """What BOOT waits for: compiled for `python`, or source when the interpreter is not at hand."""
    data = compiled(python) if python else None
    form = "source" if data is None else "compiled"
    data = sources() if data is None else data
    return f"{form} {len(data)}\n".encode() + data


@functools.cache
def shell_agent() -> str:
    """The POSIX shell agent."""
    return (resources.files("harnesstrain.sandbox") / "agent" / SHELL_AGENT).read_text()
