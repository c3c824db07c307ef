"""What `ht export --parquet` and `--csv` write."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harnesstrain.cli import output
from harnesstrain.cli.session import store_only
from harnesstrain.core.errors import StoreCorrupt, UsageError

STDOUT = Path("-")


def write_tables(
    kind: str | None,
    target: Path,
    form: str,
    *,
    runs: Sequence[str],
    config: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """All tables, or that of `kind`, as files of a form.  Raises StoreCorrupt at the end when traces were left out."""
    from harnesstrain.store.frames.export import check, export, plan, probe
    from harnesstrain.store.frames.writing import Form

    if target == STDOUT:
        _print(kind, form, runs=runs, config=config, as_json=as_json)
        return
    planned = plan(kind, target, Form(form))
    items: list[dict[str, Any]] = []
    lost = 0
    with store_only(config=config) as store:
        check(store, planned, Form(form), runs)
        if dry_run:
            probe(planned, Form(form))
            for name, file in ((one.table.shape.name, one.file) for one in planned):
                items.append({"table": name, "file": str(file), "rows": None, "bytes": None, "lost": []})
                if not as_json:
                    output.data(str(file))
                    output.say(f"{name}: {'replaces the file that is there' if file.exists() else 'new'}")
        else:
            for one in export(store, planned, Form(form), runs):
                items.append(one.model_dump(mode="json"))
                lost += len(one.lost)
                for said in one.lost:
                    output.say(f"warning: {said}")
                if not as_json:
                    output.data(str(one.file))
                    output.say(f"{one.table}: {output.counted(one.rows, 'row')}")
    if as_json:
        output.emit_list("files", items, dry_run=dry_run)
    if lost:
        message = f"{output.counted(lost, 'trace')} could not be read; what was written lacks their steps"
        raise StoreCorrupt(message, hint="`ht fsck` lists what is lost")


class _Shown(io.RawIOBase):
    """A terminal, which foreign text cannot steer."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """All of it, without control sequences."""
        sys.stdout.write(output.clean(self._decoder.decode(bytes(data))))
        return len(data)


def _print(kind: str | None, form: str, *, runs: Sequence[str], config: Path | None, as_json: bool) -> None:
    """One table as CSV on stdout."""
    from harnesstrain.store.frames.catalogue import table
    from harnesstrain.store.frames.opened import asked
    from harnesstrain.store.frames.writing import stream

    if kind is None or form != "csv" or as_json:
        raise UsageError("stdout takes one table, as CSV", hint="`ht export rollouts --csv -`")
    found = table(kind)
    with store_only(config=config) as store:
        rows = found.rows(asked(store, found.shape.name, runs))
        stream(found, rows, _Shown() if sys.stdout.isatty() else sys.stdout.buffer)
