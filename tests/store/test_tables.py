"""Parquet files of others as plain rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.store.tables import is_parquet, read_table


def test_rows_are_plain_values_in_order(tmp_path: Path) -> None:
    rows = [{"id": "é\u2028", "tests": ["a", "b"], "n": 1}, {"id": "b", "tests": [], "n": None}]
    path = tmp_path / "rows"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=1)
    assert is_parquet(path)
    assert list(read_table(path)) == rows


def test_files_that_are_none(tmp_path: Path) -> None:
    text = tmp_path / "rows.parquet"
    text.write_bytes(b"PAR1 and no more")
    assert is_parquet(text)
    with pytest.raises(ConfigError, match="cannot read .*rows.parquet: "):
        list(read_table(text))
    assert not is_parquet(tmp_path / "gone")
    assert not is_parquet(tmp_path)
