"""`python -m tests.docs.generate`: write docs/reference from the program itself.  A test keeps it true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harnesstrain.core.settings import Declared

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
GROUPS = {
    "model": ("pull", "list", "verify"),
    "tasks": ("list", "check", "oracle", "pull", "prebuild", "grade-log"),
    "harness": ("check",),
    "cache": ("stats", "gc", "states", "bump", "export"),
    "db": ("check", "upgrade"),
    "import": ("harbor",),
}


def help_of(*command: str) -> str:
    """What `ht COMMAND --help` prints, 100 columns wide."""
    env = {
        "PATH": os.environ["PATH"],
        "COLUMNS": "100",
        "TERMINAL_WIDTH": "100",
        "NO_COLOR": "1",
        "HOME": "/nonexistent",
    }
    done = subprocess.run(
        [sys.executable, "-m", "harnesstrain.cli.app", *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=env,
        cwd=ROOT,
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def cli_page() -> str:
    """docs/reference/cli.md."""
    from harnesstrain.cli.app import COMMANDS

    parts = [
        "# Command line reference",
        "Made by `make docs` from the program itself.",
        "Exit codes: 0 done, 1 bug, 2 usage or config, 3 the answer is no (only with `--exit-code`), 4 unmeasurable or "
        "no candidate, 5 incomplete (the same command resumes), 6 prerequisite missing, 7 busy, 130/141/143 signals.",
        f"## ht\n\n```text\n{help_of()}\n```",
    ]
    for name in COMMANDS:
        parts.append(f"## ht {name}\n\n```text\n{help_of(name)}\n```")
        for inner in GROUPS.get(name, ()):
            parts.append(f"### ht {name} {inner}\n\n```text\n{help_of(name, inner)}\n```")
    return "\n\n".join(parts) + "\n"


def settings_page() -> str:
    """docs/reference/settings.md."""
    from harnesstrain.core.settings import declared, declared_of_endpoints

    lines = [
        "# Settings reference",
        "",
        "Made by `make docs` from the program itself.  Layers: flag > environment > `ht.toml` (nearest parent) > "
        "user file > default.  Measured settings are part of a regime: runs that differ in one are not comparable.",
        "",
        "| key | default | variable | measured | meaning |",
        "|---|---|---|---|---|",
    ]
    lines += [_setting_row(one.key, one) for one in declared()]
    lines += [
        "",
        "## Further models",
        "",
        "Each table `[endpoints.NAME]` is a model for `--endpoint NAME`.  "
        "See [several models](../guides/several-models.md).",
        "",
        "| key | default | variable | measured | meaning |",
        "|---|---|---|---|---|",
    ]
    lines += [_setting_row(f"endpoints.NAME.{one.key}", one) for one in declared_of_endpoints()]
    return "\n".join(lines) + "\n"


def _setting_row(key: str, one: Declared) -> str:
    meaning = " ".join(one.help.split()).replace("|", "\\|")
    default = "" if one.default is None else f"`{one.default}`"
    variable = f"`{one.env}`" if one.env else ""
    return f"| `{key}` | {default} | {variable} | {'yes' if one.measured else ''} | {meaning} |"


def tables_page() -> str:
    """docs/reference/tables.md."""
    from harnesstrain.store.frames.catalogue import BY_RUN, TABLES

    lines = [
        "# Tables reference",
        "",
        "Made by `make docs` from the program itself.  What `ht export --parquet`, `ht export --csv` and "
        "`harnesstrain.open_store()` give.  The names and types are a contract: columns are added at the end, never "
        "renamed, and none changes its meaning.  Any column may be null.",
        "",
        "| type | Parquet, Arrow | CSV | pandas |",
        "|---|---|---|---|",
        "| text | string | UTF-8; what begins like a formula has an apostrophe in front | `str` |",
        "| int | int64; what it cannot hold is the nearest it can | digits | `Int64` |",
        "| float | float64; may be infinite | decimal, `inf` | `float64` |",
        "| bool | bool | `true`, `false` | `boolean` |",
        "| time | timestamp in microseconds, UTC | `2026-01-31 12:00:00.000000`, UTC | `datetime64[us]` |",
        "| texts, ints | list | JSON | objects |",
        "",
        'In CSV a null is nothing at all, and an empty text is `""`.',
        "",
        f"`--run ID` limits {', '.join(f'`{name}`' for name in BY_RUN)}.",
    ]
    for table in TABLES.values():
        lines += ["", f"## {table.shape.name}", "", f"A row is {table.shape.meaning}.", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{one.name}` | {one.type} | {one.meaning} |" for one in table.shape.columns]
    return "\n".join(lines) + "\n"


PAGES = {"cli.md": cli_page, "settings.md": settings_page, "tables.md": tables_page}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (REFERENCE / name).write_text(make(), encoding="utf-8")
        print(REFERENCE / name)
