"""Tables of a store as files: which, where, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from harnesstrain.core.errors import UsageError
from harnesstrain.store import files
from harnesstrain.store.facade import Store
from harnesstrain.store.frames.catalogue import BY_RUN, TABLES, Table, table
from harnesstrain.store.frames.opened import asked
from harnesstrain.store.frames.writing import Form, Written, place_of, write


class Planned(NamedTuple):
    """A table, and the file that it is to become."""

    table: Table
    file: Path


def plan(name: str | None, target: Path, form: Form) -> list[Planned]:
    """Where tables go: table `name` into the file `target`, or into a folder; all of them (None) into a folder.

    A name that ends like `form`, a pipe or a device is a file.  Tables come before those that they refer to.
    Raises UsageError.
    """
    other = Form.CSV if form is Form.PARQUET else Form.PARQUET
    if target.suffix == f".{other}" and not target.is_dir():
        raise UsageError(f"{target} has the name of another format", hint=f"`--{other}` writes such files")
    special = target.exists() and not target.is_file() and not target.is_dir()
    is_file = special or (target.suffix == f".{form}" and not target.is_dir())
    if name is None and is_file:
        hint = f"`ht export rollouts --{form} {target}` writes one table; a folder takes all"
        raise UsageError(f"{target} is one file, and there are {len(TABLES)} tables", hint=hint)
    if not is_file and target.exists() and not target.is_dir():
        hint = f"name a folder, or a file that ends in .{form}; `--csv -` writes to stdout"
        raise UsageError(f"{target} is not a folder", hint=hint)
    chosen = [TABLES[one] for one in _ORDER] if name is None else [table(name)]
    return [Planned(one, target if is_file else target / f"{one.shape.name}.{form}") for one in chosen]


def check(store: Store, planned: Sequence[Planned], form: Form, runs: Sequence[str] = ()) -> None:
    """Raise what `export` would raise before it writes anything: UsageError, NotFound, Ambiguous, Prerequisite."""
    for kept in (store.places.traces, store.places.blobs):
        if any(one.file.resolve().is_relative_to(kept.resolve()) for one in planned):
            raise UsageError(f"{kept} is the store's own", hint="`ht gc` would remove the files; name another folder")
    for one in planned:
        place_of(one.file, form)
    limited = [one.table.shape.name for one in planned if one.table.shape.name in BY_RUN]
    asked(store, (limited or [planned[0].table.shape.name])[0], runs)


def probe(planned: Sequence[Planned], form: Form) -> None:
    """Raise what making the files would raise, as far as a nameless file in their folder tells.  Nothing is left."""
    for one in planned:
        place = place_of(one.file, form)
        if place.direct:
            continue
        folder = next(above for above in place.path.absolute().parents if above.exists())
        try:
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise files.io_error(error, one.file) from error


def export(store: Store, planned: Sequence[Planned], form: Form, runs: Sequence[str] = ()) -> Iterator[Written]:
    """Write the files, one after the other.  `runs`: limits runs, rollouts and steps to these; empty: all.

    In the order of `plan` a store that others write to comes out whole: every flip has its verdict, every step its
    rollout.  Raises what `check` does, Prerequisite, StoreCorrupt (a damaged record).
    """
    check(store, planned, form, runs)
    for one in planned:
        name = one.table.shape.name
        reading = asked(store, name, runs if name in BY_RUN else ())
        reading.lost = []
        written = write(one.table, one.table.rows(reading), one.file, form)
        yield written.model_copy(update={"lost": tuple(reading.lost)})


_ORDER = (
    *("steps", "rollouts", "memos", "promotions", "epochs", "excluded", "flips", "verdicts"),
    *("certificates", "runs", "candidates", "panels", "caches"),
)
"""Tables before those that they refer to."""
