"""The quickstart: the same commands that a user types, shown before they run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

from harnesstrain.cli import exits, output
from harnesstrain.core.errors import Incomplete

PAGE = "report.html"
GOES_ON = (0, 4, 5)
"""Exit codes after which the tour goes on: done, no candidate left, stopped early."""


def walk(directory: Path, *, epochs: int, given: tuple[str, ...]) -> None:
    """Model, harness repo, baseline, loop, holdout, report.  Raises Incomplete when a command fails."""
    began = time.monotonic()
    place = directory.absolute()
    sets = [part for pair in given for part in ("--set", pair)]
    _step("the frozen model, once (1.1 GB)", ["model", "pull"], Path.cwd())
    if not (place / "ht.toml").exists():
        _step("a harness repo with a thin baseline and a queue of ideas", ["init", str(place), "--demo"], Path.cwd())
    _step("the baseline on tasks that the loop never sees", ["evaluate", "@", "--split", "holdout", *sets], place)
    _step(f"train: {epochs} epochs", ["epoch", "--n", str(epochs), *sets], place)
    _step("what was promoted, on the tasks never seen", ["evaluate", "@", "--split", "holdout", *sets], place)
    _step("what happened", ["log"], place)
    _step("what happened, and may I believe it", ["report"], place)
    if _extra_report():
        _step("the same as one page for a browser", ["report", "--html", PAGE], place)
    else:
        output.say("\n`pip install 'harnesstrain[report]'`, then `ht report --html report.html`: the same as a page.")
    output.say(f"\nThe harness repo is {place}; it took {time.monotonic() - began:.0f} s.")
    output.say("Next: `ht log`, `ht show ID`, `git log`; edit ht.toml to use your own estimator and tasks.")


def _extra_report() -> bool:
    return all(importlib.util.find_spec(name) for name in ("jinja2", "altair", "vl_convert"))


def _step(title: str, arguments: list[str], where: Path) -> None:
    output.say(f"\n# {title}")
    output.say(f"$ ht {' '.join(arguments)}")
    exits.STOP.drains = True
    exits.STOP.child = subprocess.Popen([sys.executable, "-m", "harnesstrain.cli.app", *arguments], cwd=where)
    code = exits.STOP.child.wait()
    exits.STOP.child = None
    if exits.STOP.is_set():
        exits.leave(exits.SIGINT)
    if code not in GOES_ON:
        msg = f"`ht {arguments[0]}` ended with exit code {code}"
        raise Incomplete(msg, hint="mend what it says above, then run the quickstart again: it goes on from there")
