"""Any Parquet file as plain rows: how data sets that others publish come in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import ConfigError

MAGIC = b"PAR1"
"""How every Parquet file starts."""


def is_parquet(path: Path) -> bool:
    """Whether the file starts as a Parquet file does.  False for what cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_table(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, a map per row with None for what is missing.  Raises ConfigError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"cannot read {path}: {why}", hint="check the file") from None
