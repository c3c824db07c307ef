"""What `ht tasks grade-log` does: logs in, verdicts out, one JSON object a line."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnesstrain.cli import output
from harnesstrain.core.errors import HtError, NotFound, UsageError
from harnesstrain.taskset.swebench import Row, Verdict, grade_log, read_rows, rows_of

_HINT = 'a line is {"case": "…", "instance_id": "…", "log": "…"}'


@dataclass(frozen=True)
class Logged:
    """One line of stdin."""

    case: str
    """What the verdict is called; the instance's id when the line names no case."""
    instance_id: str
    log: str


def grade_lines(path: Path, *, as_json: bool) -> None:
    """Grade every line of stdin with the rows in `path`.

    A line that cannot be used ends the command with an error that names it; verdicts before it are printed.
    """
    rows = load_rows(path)
    if sys.stdin.isatty():
        output.say("reading logs from stdin")
    verdicts: list[dict[str, Any]] = []
    whole = False
    counts = {"resolved": 0, "unresolved": 0, "infra": 0}
    try:
        for verdict in _verdicts(rows, path):
            counts[verdict["status"]] += 1
            if as_json:
                verdicts.append(verdict)
            else:
                sys.stdout.write(json.dumps(verdict, ensure_ascii=True) + "\n")
                sys.stdout.flush()
        whole = True
    finally:
        if as_json:
            output.emit_list("grades", verdicts, truncated=not whole)
    total = sum(counts.values())
    if not total:
        output.say("stdin held no log; nothing to do")
        return
    output.say(f"{output.counted(total, 'log')}: " + ", ".join(f"{count} {status}" for status, count in counts.items()))


def load_rows(path: Path) -> dict[str, Row]:
    """The rows of a JSON lines or Parquet file by instance id.  Raises ConfigError."""
    from harnesstrain.store.tables import is_parquet, read_table

    return rows_of(read_table(path), str(path)) if is_parquet(path) else read_rows(path)


def verdict_line(case: str, verdict: Verdict) -> dict[str, Any]:
    """A verdict as a plain JSON object."""
    return {"case": case, **verdict.model_dump(mode="json")}


def _verdicts(rows: dict[str, Row], path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if line.strip():
            logged = _logged(line, number)
            row = rows.get(logged.instance_id)
            if row is None:
                raise _unknown(logged.instance_id, rows, path, number)
            yield verdict_line(logged.case, _graded(row, logged.log, number))


def _graded(row: Row, log: str, number: int) -> Verdict:
    try:
        return grade_log(row, log)
    except HtError as error:
        raise type(error)(f"stdin:{number}: {error.message}", hint=error.hint, **error.extra) from None


def _logged(line: bytes, number: int) -> Logged:
    place = f"stdin:{number}"
    try:
        found = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"{place}: not UTF-8", hint=_HINT) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{place}: not JSON", hint=_HINT) from None
    if not isinstance(found, dict):
        raise UsageError(f"{place}: not a JSON object", hint=_HINT)
    for name in ("instance_id", "log"):
        if not isinstance(found.get(name), str):
            raise UsageError(f"{place}: no {name}", hint=_HINT)
    case = found.get("case", found["instance_id"])
    if not isinstance(case, str):
        raise UsageError(f"{place}: case is no text", hint=_HINT)
    return Logged(case=case, instance_id=found["instance_id"], log=found["log"])


def _unknown(name: str, rows: dict[str, Row], path: Path, number: int) -> NotFound:
    near = difflib.get_close_matches(name, rows, n=1)
    hint = (
        f"did you mean '{near[0]}'?"
        if near
        else f"{path} has {output.counted(len(rows), 'row')}, from {next(iter(rows))} on"
    )
    return NotFound(f"stdin:{number}: no row of '{name}' in {path}", hint=hint)
