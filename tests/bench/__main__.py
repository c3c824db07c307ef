"""`python -m tests.bench [ID]... [--json]`: measure; print a table, or one JSON object a line.

Without names and without --json, docs/benchmarks.md is written too.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import sys
from types import ModuleType

import tests.bench
from tests.bench import page
from tests.bench.result import Result
from tests.bench.scale import FULL, SCALES


def measurements() -> dict[str, ModuleType]:
    """Every module here that has an ID, by ID, in order of numbers."""
    found = {}
    for info in pkgutil.iter_modules(tests.bench.__path__):
        if info.name != "__main__" and not info.name.startswith("test_"):
            module = importlib.import_module(f"tests.bench.{info.name}")
            if hasattr(module, "ID"):
                found[module.ID] = module
    return dict(sorted(found.items(), key=lambda item: [int(one) for one in re.findall(r"\d+", item[0])] or [1000]))


def main() -> int:
    """Measure what was asked for; 1 when a target is missed."""
    known = measurements()
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("ids", nargs="*", metavar="ID", help=", ".join(known))
    parser.add_argument("--json", action="store_true", help="print one JSON object for each ID, and nothing else")
    parser.add_argument("--scale", choices=SCALES, default="full", help="targets belong to the full size")
    asked = parser.parse_args()
    scale = SCALES[asked.scale]
    unknown = set(asked.ids) - set(known)
    if unknown:
        parser.error(f"no measurement {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    results: list[Result] = []
    for name in asked.ids or known:
        results.append(known[name].measure(scale))
        if asked.json:
            print(results[-1].model_dump_json(), flush=True)
        else:
            print(f"{name}: {page.figure(results[-1])}; {results[-1].detail}", file=sys.stderr, flush=True)
    if not asked.json:
        print(page.table(results, known))
        if not asked.ids and scale is FULL:
            page.write(results, known, "make bench")
    return 1 if any(one.met is False for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
