"""The end of a log file."""

from __future__ import annotations

from pathlib import Path

from harnesstrain.llm.logs import log_size, log_tail


def test_log_tail(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert log_tail(path) == []
    path.write_bytes(b"a\n\n\x1b[31mred\xff\n" + b"x" * 100_000 + b"\nlast")
    assert log_tail(path, 2)[-1] == "last"
    assert all(len(line) <= 500 and line.isprintable() for line in log_tail(path))
    assert log_tail(path, since=log_size(path) - 4) == ["last"]
    assert log_tail(path, since=log_size(path)) == []
