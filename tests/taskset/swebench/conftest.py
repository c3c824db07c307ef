"""Small rows, logs made of them, and real ones where a directory of them lies beside the checkout."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.taskset.swebench import Row
from harnesstrain.taskset.swebench.rows import row_of
from harnesstrain.taskset.swebench.verdict import END, EXIT_CODE, START

collect_ignore = ["sample"]
"""Tests of a checkout that is a task's; they run in its environment."""
REAL = Path(__file__).resolve().parents[4] / "shared" / "realdata" / "swebench"


def make_row(
    repo: str = "pallets/flask", fail: Iterable[str] = ("t.py::new",), keep: Iterable[str] = ("t.py::old",), **more: Any
) -> Row:
    """A row as it is published: the lists as JSON text."""
    table = {
        "repo": repo,
        "instance_id": repo.replace("/", "__") + "-1",
        "FAIL_TO_PASS": json.dumps(list(fail)),
        "PASS_TO_PASS": json.dumps(list(keep)),
        **more,
    }
    return row_of(table, "test")


def make_log(*lines: str, code: int | None = 0, before: str = "", after: str = "") -> str:
    """The log of an evaluation whose tests printed `lines`."""
    ended = "" if code is None else f"{EXIT_CODE}: {code}\n"
    return f"{before}+ : '{START}'\n" + "".join(f"{line}\n" for line in lines) + f"+ : '{END}'\n{ended}{after}"


@pytest.fixture(scope="session")
def real() -> Path:
    """A directory with real rows and graded logs."""
    if not REAL.is_dir():
        pytest.skip(f"no real SWE-bench data at {REAL}")
    return REAL
