"""Generated chains of commands: going on from any kept state is running the whole chain again."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harnesstrain.sandbox.local import LocalSandbox
from tests.sandbox.states import ENVIRONMENT, LOOK, key

pytestmark = pytest.mark.local


NAMES = st.sampled_from(["a", "b", "d/c", "d/e/f", "/etc/hosts", "/etc/skel/x", "/var/log/y", "/dev/shm/s", "é ü"])
STEPS = st.one_of(
    st.builds("mkdir -p \"$(dirname '{0}')\"; echo {1} >> '{0}'".format, NAMES, st.integers(0, 99)),
    st.builds("rm -rf '{}'".format, NAMES),
    st.builds("rm -rf \"$(dirname '{}')\"".format, NAMES.filter(lambda name: name != "a")),
    st.builds("mv -T '{}' '{}'".format, NAMES, NAMES),
    st.builds("ln -f '{}' '{}'".format, NAMES, NAMES),
    st.builds("ln -sfn '{}' '{}'".format, NAMES, NAMES),
    st.builds("chmod {} '{}'".format, st.sampled_from(["600", "4755", "1777", "u+w,g-r"]), NAMES),
    st.builds("touch -d @{} '{}'".format, st.integers(0, 10**9), NAMES),
    st.builds("truncate -s {} '{}'".format, st.integers(0, 50_000_000), NAMES),
    st.builds("mkdir -p '{}'; mkfifo p{}".format, NAMES, st.integers(0, 3)),
    st.just("git init -q . ; git add -A; git -c user.name=a -c user.email=b commit -qm x; git status -s"),
    st.just("git stash -qu; git checkout -qf HEAD; git gc -q"),
    st.just("sleep 0.2 >/dev/null 2>&1 &"),
    st.just("cp -a /etc/skel /app/; rm -rf /etc/skel; mkdir /etc/skel"),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chain=st.lists(STEPS, min_size=2, max_size=12), data=st.data())
def test_any_chain_goes_on_from_any_state_as_if_it_had_not_stopped(
    local: LocalSandbox, chain: list[str], data: st.DataObject
) -> None:
    keys: dict[int, str] = {}
    with contextlib.closing(local.open(ENVIRONMENT)) as live:
        seen = []
        for number, command in enumerate(chain):
            result = live.run(command, timeout=30)
            seen.append((result.exit_code, result.stdout, result.stderr))
            name = key()
            if live.seal(name):
                assert result.left == 0
                keys[number] = name
        final = live.state()
        look = live.run(LOOK).stdout
    with contextlib.closing(local.open(ENVIRONMENT)) as again:  # the whole chain, from the start
        for command, expected in zip(chain, seen, strict=True):
            result = again.run(command, timeout=30)
            assert (result.exit_code, result.stdout, result.stderr) == expected
        assert again.state() == final
    for number in data.draw(st.sets(st.sampled_from(sorted(keys)), max_size=3)) if keys else ():
        with contextlib.closing(local.open(ENVIRONMENT, at=keys[number])) as copy:
            for later, command in enumerate(chain[number + 1 :], start=number + 1):
                result = copy.run(command, timeout=30)
                assert (result.exit_code, result.stdout, result.stderr) == seen[later]
            assert copy.state() == final
            if number == len(chain) - 1:
                assert copy.run(LOOK).stdout == look
