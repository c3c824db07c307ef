"""A store, open for reading: its tables as data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harnesstrain.core.errors import HtError, Prerequisite, UsageError
from harnesstrain.core.settings import FILE_NAME, load
from harnesstrain.store.facade import Store
from harnesstrain.store.frames.arrow import batches, schema
from harnesstrain.store.frames.catalogue import BY_RUN, TABLES, table
from harnesstrain.store.frames.reading import Reading

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STORE_FILE = "store.db"

Runs = str | Sequence[str] | None
"""Ids of runs, or unique beginnings of ids; None: all."""


class OpenStore:
    """The tables of one store, each as it is when it is asked for.  Reads only; another process may be writing.

    A method per table returns a pandas DataFrame: `Int64`, `boolean` and `str` columns with missing values, lists as
    objects.  `arrow` and `reader` return any table as Arrow, without pandas.  docs/reference/tables.md has the columns.
    Use it as a context manager, or call `close()`.
    """

    tables: tuple[str, ...] = tuple(name for name in TABLES if name != "caches")
    """Names that `arrow` and `reader` take."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def runs(self) -> pd.DataFrame:
        """A row per run, oldest first."""
        return self._frame("runs")

    def rollouts(self, run: Runs = None) -> pd.DataFrame:
        """A row per attempt, of all runs or of some; `newest` marks those that count."""
        return self._frame("rollouts", run)

    def steps(self, run: Runs = None, rollout: str | None = None) -> pd.DataFrame:
        """A row per model call or action, of all runs, some, or one rollout.  Raises StoreCorrupt: a lost trace."""
        return _pandas(self.arrow("steps", run=run, rollout=rollout))

    def candidates(self) -> pd.DataFrame:
        """A row per proposal, failed ones included."""
        return self._frame("candidates")

    def verdicts(self) -> pd.DataFrame:
        """A row per verdict."""
        return self._frame("verdicts")

    def flips(self) -> pd.DataFrame:
        """A row per flip of a verdict."""
        return self._frame("flips")

    def excluded(self) -> pd.DataFrame:
        """A row per cell that a verdict left out."""
        return self._frame("excluded")

    def epochs(self) -> pd.DataFrame:
        """A row per epoch."""
        return self._frame("epochs")

    def promotions(self) -> pd.DataFrame:
        """A row per promotion."""
        return self._frame("promotions")

    def memos(self) -> pd.DataFrame:
        """A row per diagnosis."""
        return self._frame("memos")

    def certificates(self) -> pd.DataFrame:
        """A row per certificate."""
        return self._frame("certificates")

    def panels(self) -> pd.DataFrame:
        """A row per task of each panel."""
        return self._frame("panels")

    def arrow(self, name: str, *, run: Runs = None, rollout: str | None = None) -> pa.Table:
        """A table as a pyarrow Table, for DuckDB, polars and others.  Raises UsageError: no such table or run."""
        with _hinted():
            return self.reader(name, run=run, rollout=rollout).read_all()

    def reader(self, name: str, *, run: Runs = None, rollout: str | None = None) -> pa.RecordBatchReader:
        """The same as a stream: a few thousand rows are in memory at once.  Read it before the store is closed."""
        import pyarrow as pa

        with _hinted():
            found = table(name)
            name = found.shape.name
            if name not in self.tables:
                hint = "`ht cache stats` and `ht export` read the caches"
                raise UsageError(f"'{name}' is no table to open", hint=hint)
            reading = asked(self._store, name, [run] if isinstance(run, str) else run or (), rollout)
        return pa.RecordBatchReader.from_batches(schema(found.shape), batches(found.shape, found.rows(reading)))

    def close(self) -> None:
        """Let go of the files.  May be called twice."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _frame(self, name: str, run: Runs = None) -> pd.DataFrame:
        return _pandas(self.arrow(name, run=run))


def open_store(path: str | Path | None = None, *, environ: Mapping[str, str] | None = None) -> OpenStore:
    """The store of a project, to read.

    `path`: a folder of the project, its ht.toml, or the store's own folder; None: the project of the working directory.
    `environ`: variables to go by, such as `os.environ` with HT_STORE; by default none.
    Raises Prerequisite (no store there; an older one: `ht db upgrade`), ConfigError (ht.toml), UsageError (no path).
    """
    with _hinted():
        if path == "":
            raise UsageError("the path is empty", hint=f"name a project's folder, or its {FILE_NAME}; None: this one")
        return OpenStore(_opened(Path.cwd() if path is None else Path(path).expanduser(), environ or {}))


def _opened(place: Path, environ: Mapping[str, str]) -> Store:
    if not place.exists():
        raise UsageError(f"no such file or folder: {place}", hint=f"name a project's folder, or its {FILE_NAME}")
    if (place / STORE_FILE).is_file():
        return Store.open(place, read_only=True)
    file = place if place.is_file() else None
    if file is not None and file.name == STORE_FILE:
        return Store.open(file.parent, read_only=True)
    settings = load(place if file is None else file.parent, environ, {}, file=file)
    directory = settings.store.path if settings.store.url is not None else None
    return Store.open(settings.store_location, directory=directory, read_only=True)


def asked(store: Store, name: str, runs: Sequence[str] = (), rollout: str | None = None) -> Reading:
    """A reading of table `name` for what is asked.  Raises UsageError, NotFound, Ambiguous."""
    if runs and name not in BY_RUN:
        raise UsageError(f"table '{name}' cannot be limited to runs", hint=f"these can: {', '.join(BY_RUN)}")
    if rollout is not None and name != "steps":
        raise UsageError(f"table '{name}' cannot be limited to a rollout", hint="table 'steps' can")
    only = [store.resolve(run, ["run"]).id for run in runs]
    if rollout is None:
        return Reading(store, only)
    one = store.rollout(store.resolve(rollout, ["rollout"]).id)
    return Reading(store, [one.run], one.id)


@contextmanager
def _hinted() -> Iterator[None]:
    """Errors show their hint where nobody prints it: in a notebook, below the traceback."""
    try:
        yield
    except HtError as error:
        note = f"hint: {error.hint}"
        if error.hint and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def _pandas(found: pa.Table) -> pd.DataFrame:
    """Types are those of the table, whatever its rows are."""
    try:
        import pandas as pd
    except ImportError:
        hint = "pip install pandas; or `.arrow(NAME)`, a pyarrow Table, which needs no pandas"
        with _hinted():
            raise Prerequisite("data frames need pandas, which is not installed", hint=hint) from None
    import pyarrow as pa

    nullable: dict[Any, Any] = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    return found.to_pandas(types_mapper=nullable.get)
