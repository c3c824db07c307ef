"""`python -m tests.bench [ID]... [--json]`: measure, print a table or one JSON object a line.

Without names and without --json, docs/benchmarks.md is written too.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import tests.bench
from tests.bench.result import Result

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def measurements() -> dict[str, ModuleType]:
    """Every module here that has an ID, by ID."""
    found = {}
    for info in pkgutil.iter_modules(tests.bench.__path__):
        if info.name != "__main__":
            module = importlib.import_module(f"tests.bench.{info.name}")
            if hasattr(module, "ID"):
                found[module.ID] = module
    return found


def machine() -> str:
    """What it was measured on."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {platform.system()}"


def table(results: list[Result]) -> str:
    """The results as a Markdown table."""
    rows = ["| what | value | target | met | how |", "|---|---|---|---|---|"]
    for one in results:
        figure = f"{one.value:g} {one.unit}"
        rows.append(
            f"| {one.id} | {figure} | ≤ {one.target:g} {one.unit} | {'yes' if one.met else 'NO'} | {one.detail} |"
        )
    return "\n".join(rows)


def main() -> int:
    """Measure what was asked for; 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    known = measurements()
    unknown = set(asked.ids) - set(known)
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    results = []
    for name in asked.ids or known:
        results.append(known[name].measure())
        if asked.json:
            print(results[-1].model_dump_json(), flush=True)
        else:
            print(f"{name}: {results[-1].value:g} {results[-1].unit}", file=sys.stderr, flush=True)
    if not asked.json:
        text = table(results)
        print(text)
        if not asked.ids:
            when = datetime.now(UTC).date().isoformat()
            PAGE.write_text(f"# Benchmarks\n\nMade by `make bench` on {when}: {machine()}.\n\n{text}\n")
    return 0 if all(one.met for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
