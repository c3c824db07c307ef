"""docs/benchmarks.md: the figures, the machine, the commands, the ratios."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from tests.bench.result import Result

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
ABOUT = """\
The workload is synthetic: 40 tasks of 100 steps, observations of 2,000 bytes, commands of 200, model replies of 400
bytes and a call.  The model follows a script, and so does the environment where nothing else is said; the harness is
a real process in its jail, and all records and traces are written.  Processor time (CPU) is that of all processes
together: driver, harness, launcher.  Counts are exact.

`python -m tests.bench P1 --json` measures one figure afresh and prints it as one JSON object; `--scale tiny` only
shows that it works.  The reference is the public harness-training framework, on the same decisions and bytes on two
shared cores.
"""


def machine() -> str:
    """What it was measured on."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    return f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, {platform.system()}"


def figure(result: Result) -> str:
    """The value with its unit."""
    return "—" if result.value is None else f"{result.value:g} {result.unit}"


def table(results: list[Result], known: dict[str, ModuleType]) -> str:
    """The results as a Markdown table."""
    rows = ["| what | value | target | met | reference | ratio |", "|---|---|---|---|---|---|"]
    for one in results:
        module = known[one.id]
        sign = "≥" if one.detail.startswith("at least") else "≤"
        met = {True: "yes", False: "NO", None: "not measured"}[one.met]
        peer, value = getattr(module, "PEER", "—"), getattr(module, "PEER_VALUE", None)
        ratio = f"{value / one.value:.1f} ×" if value is not None and one.value else "—"
        rows.append(f"| {one.id} | {figure(one)} | {sign} {one.target:g} {one.unit} | {met} | {peer} | {ratio} |")
    return "\n".join(rows)


def write(results: list[Result], known: dict[str, ModuleType], command: str) -> None:
    """Write the page."""
    when = datetime.now(UTC).date().isoformat()
    parts = [f"# Benchmarks\n\nMade by `{command}` on {when}: {machine()}.\n\n{ABOUT}\n{table(results, known)}\n"]
    for one in results:
        about = (known[one.id].__doc__ or "").strip()
        parts.append(f"\n## {one.id}\n\n{about}\n\nMeasured: {one.detail}.\n")
    PAGE.write_text("".join(parts))


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
