"""Proposed scrub rules: for what looks volatile, and for nothing else."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.sandbox.scrub_proposal import propose

VOLATILE = [
    ("listening on port 43121 now\n", "listening on port 50112 now\n", "listening on port <N> now"),
    ("Took: 12.2 ms total\n", "Took: 9.8 ms total\n", "Took: <N> ms total"),
    ("session=ab12cd34ef ok", "session=99ff0012aa ok", "session=<ID> ok"),
    ("12:30:11 INFO started", "12:31:15 INFO started", "<TIME> INFO started"),
    ("obj <foo 0x7f00aa12> x", "obj <foo 0x7f00bb12> x", "obj <foo <ADDR>> x"),
    ("made /tmp/build.xK3f9a/out", "made /tmp/build.Qw8zzb/out", "made /tmp/build.<RAND>/out"),
    ("wrote 'it' pid=33", "wrote 'it' pid=339", "wrote 'it' pid=<N>"),
    ("head\nelapsed 3.5s\ntail", "head\nelapsed 4.5s\ntail", "elapsed <N>s"),
]
SIGNAL = [
    ("0.84421\n", "0.1234\n", "nothing but the value"),
    ("ab12cd34ef56ab78\n", "ff12cd34ef56ab79\n", "nothing but the value"),
    ("sha256: ab12cd34ef ok", "sha256: 99ff0012aa ok", "a digest differs"),
    ("3 passed", "2 passed", "nothing says that it is volatile"),
    ("the answer is 42", "the answer is 43", "nothing says that it is volatile"),
    ("hello world", "hello earth", "task's signal"),
    ("a\nb\n", "b\na\n", "the same lines came in another order"),
    ("item 6\nitem 1\nitem 2\n", "item 2\nitem 6\nitem 1\n", "the same lines came in another order"),
    (
        "item 6\nitem 1\nitem 2\n1 left",
        "item 2\nitem 6\nitem 1\n2 left",
        "3 of 4 lines that differ only came in another",
    ),
    ("a\n", "a\nb\n", "1 line became 2"),
    ("pid 12 died", "pid 12 died and more", "reads differently"),
    ("pid 5 \ufffd", "pid 6 \ufffd", "not text"),
]


@pytest.mark.parametrize(("recorded", "observed", "scrubbed"), VOLATILE)
def test_what_looks_volatile_gets_a_rule_ready_to_paste(recorded: str, observed: str, scrubbed: str) -> None:
    found = propose(recorded, observed)
    assert found.rule is not None, found.reason
    (rule,) = tomllib.loads(found.rule)["rule"]
    assert rule["matches"][0]["scrubbed"] == scrubbed
    assert rule["reason"] == found.reason


@pytest.mark.parametrize(("recorded", "observed", "why"), SIGNAL)
def test_task_signal_and_pure_chance_get_none_and_the_reason(recorded: str, observed: str, why: str) -> None:
    found = propose(recorded, observed)
    assert found.rule is None
    assert why in found.reason


def test_several_places_get_several_rules() -> None:
    found = propose("pid 12 took 3 ms\nport 80 open", "pid 9 took 4 ms\nport 81 open")
    assert found.rule is not None
    assert len(tomllib.loads(found.rule)["rule"]) == 3


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_get_an_answer(one: str, other: str) -> None:
    found = propose(one, other)
    assert found.reason
    if found.rule is not None:
        assert tomllib.loads(found.rule)["rule"]
