"""Property: an environment brought to a state behaves, and is, as one in which everything was executed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harnesstrain.core.records.rollout import Source
from harnesstrain.rollout import keeping
from tests.rollout.walking import Walked, Walker, Watched

pytestmark = pytest.mark.local

FILES = st.sampled_from(["a", "b", "d/c", "d/e f", "r/g"])
LOOKS = [
    "find . /dev/shm -path ./r/.git -prune -o ! -type d -printf '%p %y %m %U:%G %l %n %s\\n' | sort",
    "find . -type f -not -path './r/.git/*' -exec md5sum {} + | sort",
    "cat /dev/shm/* 2>/dev/null",
    "pgrep -x -c sleep",
    "cd r 2>/dev/null && git status --porcelain && git log --oneline --stat && git fsck --strict",
    "cd r 2>/dev/null && git diff-index HEAD",
    "[ a -nt b ] && echo newer; [ b -nt d/c ] && echo newer still",
]
"""What a harness could ask to see a difference."""


def changes() -> st.SearchStrategy[str]:
    """One command that changes something, or does not."""
    word = st.sampled_from(["one", "two", "three"])
    mode = st.sampled_from(["600", "755", "4711", "0"])
    return st.one_of(
        st.builds("mkdir -p d r; echo {} >> '{}'".format, word, FILES),
        st.builds("rm -rf '{}'".format, st.one_of(FILES, st.just("d"))),
        st.builds("mv '{}' '{}'".format, FILES, FILES),
        st.builds("chmod {} '{}'".format, mode, FILES),
        st.builds("ln -sf '{}' '{}'".format, FILES, FILES),
        st.builds("ln -f '{}' hard".format, FILES),
        st.builds("mkdir -p d; cp -a '{}' d/copy; truncate -s 100000 d/sparse".format, FILES),
        st.builds("touch -d '2001-02-03 04:05:06.789' '{}'".format, FILES),
        st.builds("sed -i s/one/four/ '{}'".format, FILES),
        st.just("mkdir -p r && cd r && git init -q . && echo x >> f && git add -A && git commit -q -m c"),
        st.just("cd r && git checkout -q -b side && git rm -q f"),
        st.builds("echo {} >> /dev/shm/s".format, word),
        st.just("rm -f /dev/shm/s"),
        st.just("mkfifo pipe"),
        st.builds("sleep 300 > /dev/null 2>&1 & echo {}".format, word),
        st.just("pkill -x sleep; sleep 0.05; true"),
        st.just("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'"),
        st.builds("chown 1000:1000 '{}'".format, FILES),
        st.builds("echo {} > /etc/own; rm -f /etc/motd".format, word),
        st.sampled_from(LOOKS),
    )


CHAINS = st.lists(changes(), min_size=2, max_size=9)


@pytest.fixture(scope="module")
def sandbox(local: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with closing(Watched(tmp_path_factory.mktemp("cache"))) as made:
        yield made


def seen(walked: Walked, start: int) -> list[tuple[int, bytes, bytes] | None]:
    return walked.said[start:]


@given(chain=CHAINS, data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_follows_a_divergence_is_what_full_execution_gives(
    tmp_path: Path, sandbox: Watched, chain: list[str], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(chain) - 1), label="divergence at")
    suffix = [*data.draw(st.lists(changes(), max_size=2), label="then"), *LOOKS]
    other = [*chain[:place], "echo diverged", *suffix]
    walker = Walker(tmp_path, sandbox)
    with mock.patch.multiple(keeping, KEEP_ACTIONS=2, KEEP_SECONDS=0.05, CHEAP=1000.0):
        walker.walk(chain)
        full = walker.walk(other, bench=walker.bench(step_cache=None), state=True)
        thorough = walker.walk(other, thorough=True, bench=walker.bench(cache_write=False), state=True)
        quick = walker.walk(other, bench=walker.bench(cache_write=False), state=True)
    live = len(suffix) + 1
    for one in (thorough, quick):
        assert seen(one, place) == seen(full, place)
        assert one.state == full.state
        assert one.sources[:place] == (Source.CACHE,) * place
        assert Source.CACHE not in one.sources[place:]
    assert thorough.executions == place + live
    start = quick.started_at[0] if quick.started_at else None
    if start is None:
        assert quick.executions == place + live
    else:
        assert live <= quick.executions < place + live  # never everything again


@given(length=st.integers(2, 24), data=st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_how_much_is_executed_after_a_divergence(
    tmp_path: Path, sandbox: Watched, length: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, length), label="divergence at")
    chain = [f"echo {number} >> log" for number in range(length)]
    other = [*chain[:place], *(f"echo other {number} >> log" for number in range(length - place)), "cat log"]
    live = length - place + 1
    walker = Walker(tmp_path, sandbox)
    with mock.patch.multiple(keeping, KEEP_SECONDS=1000.0, CHEAP=1000.0):  # by number of actions alone
        walker.walk(chain)
        thorough = walker.walk(other, thorough=True, bench=walker.bench(cache_write=False))
        quick = walker.walk(other, bench=walker.bench(cache_write=False))
    assert thorough.executions == length + 1
    again = (place - 1) % keeping.KEEP_ACTIONS if place else 0  # kept after the first, then after every eighth
    assert quick.executions == again + live
    assert quick.said == thorough.said
