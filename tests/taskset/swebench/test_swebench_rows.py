"""Rows as they are published, and rows that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.swebench import read_rows, rows_of

GOOD = {"repo": "a/b", "instance_id": "a__b-1", "FAIL_TO_PASS": '["x"]', "PASS_TO_PASS": "[]"}


def write(folder: Path, *lines: str | bytes) -> Path:
    path = folder / "rows.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return path


def test_lists_are_json_text_or_lists(tmp_path: Path) -> None:
    plain = GOOD | {"instance_id": "a__b-2", "FAIL_TO_PASS": ["x", "y é\u2028z"], "PASS_TO_PASS": ["k[a"]}
    path = write(tmp_path, b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), "", json.dumps(plain, ensure_ascii=False), "")
    rows = read_rows(path)
    assert list(rows) == ["a__b-1", "a__b-2"]
    assert rows["a__b-1"].fail_to_pass == ("x",)
    assert rows["a__b-1"].pass_to_pass == ()
    assert rows["a__b-2"].fail_to_pass == ("x", "y é\u2028z")
    assert rows["a__b-2"].pass_to_pass == ("k[a",)


def test_texts_are_kept_and_the_instruction_has_one_kind_of_line_end() -> None:
    table = GOOD | {"problem_statement": "a\r\nb\rc\n", "test_patch": "+x\r\n", "hints_text": None, "image": "other"}
    (row,) = rows_of([table], "here").values()
    assert row.problem_statement == "a\r\nb\rc\n"
    assert row.instruction == "a\nb\nc\n"
    assert row.test_patch == "+x\r\n"
    assert row.hints_text == ""


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{not json}", "not JSON"),
        ("[1]", "not a JSON object"),
        (b'{"repo": "\xff"}', "not UTF-8"),
        ("[" * 200_000, "not JSON"),
        (json.dumps({**GOOD, "repo": ""}), "no repo"),
        (json.dumps({**GOOD, "instance_id": 3}), "no instance_id"),
        (json.dumps({**GOOD, "version": 3.0}), "version is no text"),
        (json.dumps({**GOOD, "FAIL_TO_PASS": "[x]"}), "the text of FAIL_TO_PASS is not JSON"),
        (json.dumps({**GOOD, "FAIL_TO_PASS": [1]}), "FAIL_TO_PASS is no list of tests"),
        (json.dumps({**GOOD, "PASS_TO_PASS": None}), "PASS_TO_PASS is no list of tests"),
        (json.dumps({**GOOD, "patch": "\ud800"}), "half a surrogate pair"),
        (json.dumps(GOOD), "a__b-1 is there already"),
    ],
)
def test_wrong_rows_are_named_by_line(tmp_path: Path, line: str | bytes, why: str) -> None:
    path = write(tmp_path, json.dumps(GOOD), "", line)
    with pytest.raises(ConfigError) as caught:
        read_rows(path)
    assert f"{path}:3: " in caught.value.message
    assert why in caught.value.message
    assert caught.value.hint


def test_files_without_rows(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_rows(tmp_path / "gone.jsonl")
    with pytest.raises(ConfigError, match="cannot read"):
        read_rows(tmp_path)
    with pytest.raises(ConfigError, match="has no rows"):
        read_rows(write(tmp_path, "", " "))
    with pytest.raises(ConfigError, match="nothing has no rows"):
        rows_of([], "nothing")


def test_real_rows(real: Path) -> None:
    rows = read_rows(real / "verified-10.jsonl")
    assert len(rows) == 10
    assert rows["django__django-14315"].pass_to_pass == ()
    cut = [t for t in rows["astropy__astropy-14369"].pass_to_pass if t.count("[") > t.count("]")]
    assert len(cut) == 16
    assert sum("\r\n" in row.problem_statement for row in rows.values()) == 6
    assert all("\r" not in row.instruction for row in rows.values())
    assert not rows["astropy__astropy-14369"].test_patch.isascii()
