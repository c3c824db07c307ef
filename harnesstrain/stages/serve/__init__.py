"""Serve a frozen model: in the foreground, or detached with a state file; say what runs; stop it.

Read this to know how a model server is started, found and ended.  May import: judge, llm, store, core.

spec.py      ServeSpec, Serving: what is asked, what is going on
vouching.py  what is certified of the endpoint
stage.py     check, run, status, stop
detach.py    a server as a process of its own: start, wait until it answers
__main__.py  what that process runs: `python -m harnesstrain.stages.serve`, its plan on standard input
"""

from harnesstrain.stages.serve.spec import Action, ServeSpec, Serving
from harnesstrain.stages.serve.stage import check, run, status, stop

__all__ = ["Action", "ServeSpec", "Serving", "check", "run", "status", "stop"]
