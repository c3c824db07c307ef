"""State digests: equal for equal files, whatever way they came about."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.local import LocalSandbox
from tests.sandbox.states import ENVIRONMENT

pytestmark = pytest.mark.local


def digest_after(local: LocalSandbox, *commands: str) -> str | None:
    with contextlib.closing(local.open(ENVIRONMENT)) as session:
        for command in commands:
            session.run(command)
        return session.state()


def test_a_digest_is_of_content_alone(local: LocalSandbox) -> None:
    nothing = digest_after(local)
    assert nothing
    for unchanged in (
        "touch -d @7 /etc/hosts; chmod 644 /etc/hosts",
        "cat /etc/hosts > /tmp/h; cat /tmp/h > /etc/hosts; rm /tmp/h",
        "mv /etc/shells /tmp/s; cp -p /tmp/s /etc/shells; rm /tmp/s",
        "mkdir new; touch new/x; rm -r new; true > x; rm x",
        "cp -a /etc/skel /tmp/skel; rm -r /etc/skel; mv /tmp/skel /etc/skel",
    ):
        assert digest_after(local, unchanged) == nothing, unchanged
    changed = [
        "rm /etc/hosts",
        "rm -r /var/log",
        "chmod 600 /etc/hosts",
        "echo x >> /etc/hosts",
        "touch empty",
        "mkdir empty",
        "mkfifo empty",
        "ln -s a empty",
        "ln -s b empty",
        "truncate -s 5 empty",
        "printf 'aaaaa' > empty",
        "touch empty; chmod 600 empty",
        "touch other",
        "rm -r /etc/pam.d; mkdir /etc/pam.d",
        "echo x > /dev/shm/x",
        "chmod 700 /",
    ]
    if os.geteuid() == 0:
        changed.append("touch empty; chown nobody empty")
    found = [digest_after(local, command) for command in changed]
    assert len({nothing, *found}) == len(changed) + 1
    zeros = "head -c 3000000 /dev/zero > z; printf x >> z"
    hole = "truncate -s 3000000 z; printf x >> z"
    assert digest_after(local, zeros) == digest_after(local, hole) != digest_after(local, "truncate -s 3000001 z")


def test_a_digest_sees_through_the_layers_of_a_task(local: LocalSandbox, tmp_path: Path) -> None:
    lines = (
        "RUN rm /etc/fstab && mkdir -p /d/sub && echo 1 > /d/one && echo 2 > /d/sub/two",
        "RUN cp -a /var/log /l && rm -r /var/log && mkdir /var/log && echo 3 > /var/log/three",
    )
    (tmp_path / "Dockerfile").write_text("\n".join(("FROM x", *lines)) + "\n")
    environment = Environment(context=tmp_path)

    def after(command: str) -> str | None:
        with contextlib.closing(local.open(environment)) as session:
            session.run(command)
            return session.state()

    nothing = after("true")
    assert nothing
    for unchanged in (
        "touch /etc/fstab; rm /etc/fstab",
        "cp -a /d /e; rm -r /d; cp -a /e /d; rm -r /e",
        "rm -r /var/log; mkdir /var/log; echo 3 > /var/log/three",
        "mv /d/sub/two /d/two; mv /d/two /d/sub/two; touch /d/one",
    ):
        assert after(unchanged) == nothing, unchanged
    changed = [
        "touch /etc/fstab",
        "rm -r /d/sub",
        "rm /d/sub/two",
        "rm -r /d",
        "rm -r /d; mkdir /d",
        "rm -r /d; mkdir /d; mkdir /d/sub; echo 2 > /d/sub/two",
        "rm -r /d; echo 1 > /d",
        "rm /var/log/three",
        "rm -r /var/log; ln -s /d /var/log",
    ]
    found = [after(command) for command in changed]
    assert len({nothing, *found}) == len(changed) + 1
    assert after("rm -r /d; mkdir -p /d/sub; echo 2 > /d/sub/two") == after("rm /d/one")


def test_the_notes_of_git_do_not_count_and_what_is_staged_does(local: LocalSandbox) -> None:
    def after(*commands: str) -> str | None:
        return digest_after(local, "git init -q . && echo 1 > f && echo 2 > g && git add f", *commands)

    assert after() == after("touch -d @99 f; git update-index --refresh")
    assert after("git rm -q --cached f") != after()
    assert after("git update-index --chmod=+x f") != after()
    assert after("git update-index --index-version 4; git add g") == after("git add g")
