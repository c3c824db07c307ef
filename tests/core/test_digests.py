"""Canonical JSON: equal values, equal bytes; different values, different digests."""

from __future__ import annotations

import json
import math
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.digests import DIGEST_HEX, canonical, digest, digest_tree, encoder, normalise, roll
from harnesstrain.core.records.llm import Sampling

scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    return tuple(shuffled(item) for item in value) if isinstance(value, list) else value


@given(values)
def test_order_of_keys_and_kind_of_sequence_do_not_count(value: Any) -> None:
    assert canonical(shuffled(value)) == canonical(value)
    assert len(digest(value)) == DIGEST_HEX


@given(values)
def test_normalising_is_idempotent_and_bytes_parse_back(value: Any) -> None:
    once = normalise(value)
    assert normalise(once) == once
    assert canonical(json.loads(canonical(value).decode("utf-8", "surrogatepass"))) == canonical(value)


def test_known_bytes() -> None:
    assert canonical({"b": 1.0, "a": [None, True, "é"]}) == b'{"a":[null,true,"\xc3\xa9"],"b":1}'
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_strings_are_compared_composed() -> None:
    assert digest(unicodedata.normalize("NFD", "é")) == digest("é")


@pytest.mark.parametrize(
    ("one", "other"), [(1, "1"), (0, False), (1, True), (None, "null"), ([], {}), ([1, 2], [2, 1]), (0.1, 0.2)]
)
def test_different_values_differ(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


@pytest.mark.parametrize("value", [math.nan, math.inf, b"bytes", {1: 2}, {1, 2}, object()])
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        digest(value)


def test_a_record_is_its_fields() -> None:
    assert digest(Sampling()) == digest(Sampling().model_dump(mode="json"))
    assert digest(Sampling(seed=1)) != digest(Sampling(seed=2))


@given(st.lists(st.integers(), min_size=1, max_size=5), st.lists(st.integers(), min_size=1, max_size=5))
def test_rolling_digests_tell_chains_apart(one: list[int], other: list[int]) -> None:
    def chain(items: list[int]) -> str:
        link = digest("start")
        for item in items:
            link = roll(link, item)
        return link

    assert (chain(one) == chain(other)) == (one == other)


def test_a_tree_is_its_names_modes_and_bytes(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("one")
    first = digest_tree(root)
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "x.pyc").write_text("ignored")
    assert digest_tree(root) == first
    seen = {first}
    (root / "sub" / "a.txt").chmod(0o755)
    seen.add(digest_tree(root))
    (root / "sub" / "a.txt").write_text("two")
    seen.add(digest_tree(root))
    (root / "link").symlink_to("sub/a.txt")
    seen.add(digest_tree(root))
    (root / "link").unlink()
    (root / "link").symlink_to("elsewhere")
    seen.add(digest_tree(root))
    (root / "empty").mkdir()
    seen.add(digest_tree(root))
    assert len(seen) == 6
    assert digest_tree(tmp_path / "absent") == digest_tree(root / "empty")


@given(values, st.booleans(), st.booleans(), st.booleans())
def test_an_encoder_writes_what_json_does(value: Any, sort_keys: bool, ensure_ascii: bool, spaces: bool) -> None:
    encode = encoder(sort_keys=sort_keys, ensure_ascii=ensure_ascii, allow_nan=False, spaces=spaces)
    between = None if spaces else (",", ":")
    said = json.dumps(value, sort_keys=sort_keys, ensure_ascii=ensure_ascii, allow_nan=False, separators=between)
    assert encode(value) == said


def test_an_encoder_refuses_what_json_does() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value, error in ((math.nan, ValueError), ({1, 2}, TypeError), (circle, RecursionError)):
        with pytest.raises(error):
            encoder(allow_nan=False)(value)
    assert encoder()([math.nan]) == "[NaN]"
