"""The part of the contract about reaching a state again: kept ones where a kind keeps any, else by running again."""

from __future__ import annotations

import contextlib
import secrets

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import Sandbox, Session

CHAIN = (
    "mkdir -p deep/er; echo one > deep/er/one; chmod 640 deep/er/one; ln -s deep/er link; ln deep/er/one same",
    "rm fact.txt; mv tool.sh moved.sh; ./moved.sh; mkdir -p gone; rm -r gone",
    "printf 'a\\nb\\n' > text; sed -i s/a/c/ text; cat text >&2; test -e fact.txt",
)
LOOK = "ls -R; cat link/one same text; ls -l deep/er/one | cut -c1-10; readlink link; ls fact.txt"


class StatesContract:
    """What every sandbox must do about states.  `SandboxContract` includes it."""

    def test_a_chain_run_again_says_the_same_again(self, sandbox: Sandbox, environment: Environment) -> None:
        seen, states = [], set()
        for _ in range(2):
            with contextlib.closing(sandbox.open(environment)) as session:
                results = [session.run(command) for command in (*CHAIN, LOOK)]
                seen.append([(one.exit_code, one.stdout, one.stderr) for one in results])
                states.add(session.state())
        assert seen[0] == seen[1]
        assert len(states) == 1

    def test_a_state_digest_follows_the_files(self, sandbox: Sandbox, environment: Environment) -> None:
        with contextlib.closing(sandbox.open(environment)) as session:
            before = session.state()
            if before is None:
                pytest.skip("this kind does not know what differs")
            assert len(bytes.fromhex(before)) == 32
            session.run("touch -d @7 fact.txt; cat fact.txt")
            assert session.state() == before
            session.run("echo more >> fact.txt")
            assert session.state() != before
            session.run("echo 'water is wet' > fact.txt")
            assert session.state() == before

    def test_what_changed_is_told_from_outside(self, sandbox: Sandbox, environment: Environment) -> None:
        with contextlib.closing(sandbox.open(environment)) as session:
            before = session.changed()
            if before is None:
                pytest.skip("this kind does not know what differs")
            session.run("rm fact.txt; mkdir made; echo new > made/new; echo more >> tool.sh")
            made = {f"{session.workdir}/{name}" for name in ("fact.txt", "made/new", "tool.sh")}
            assert made <= set(session.changed() or ())
            assert not made & set(before)
            session.run("rm -r made")
            assert f"{session.workdir}/made/new" not in (session.changed() or ())
        assert session.changed() is None

    def test_a_kept_state_is_gone_on_from(self, sandbox: Sandbox, environment: Environment) -> None:
        key = secrets.token_hex(32)
        with contextlib.closing(sandbox.open(environment)) as session:
            for command in CHAIN:
                session.run(command)
            kept = session.seal(key)
            assert kept == (sandbox.sealed([secrets.token_hex(32), key]) == key)
            if not sandbox.capabilities().snapshots:
                assert not kept
                return
            assert kept
            with contextlib.closing(sandbox.open(environment, at=key)) as copy:
                assert copy.workdir == session.workdir
                assert copy.state() == session.state()
                for command in (LOOK, "echo $$; ls -l --full-time deep/er", "echo $TASK; echo new > new; ls"):
                    assert copy.run(command).stdout == session.run(command).stdout
                copy.run("rm -r deep")
            assert session.run("cat deep/er/one").stdout == b"one\n"
            with contextlib.closing(sandbox.open(environment, at=key)) as again:
                assert again.run("cat deep/er/one; ls new").stdout == b"one\n"

    def test_a_state_that_was_never_kept_is_a_failure(self, sandbox: Sandbox, environment: Environment) -> None:
        assert sandbox.sealed([]) is None
        assert sandbox.sealed([secrets.token_hex(32)]) is None
        with pytest.raises(SandboxFailure):
            sandbox.open(environment, at=secrets.token_hex(32))

    def test_a_state_with_a_living_process_is_not_kept(self, sandbox: Sandbox, environment: Environment) -> None:
        with contextlib.closing(sandbox.open(environment)) as session:
            session.run("sleep 300 >/dev/null 2>&1 &")
            key = secrets.token_hex(32)
            assert not session.seal(key)
            assert sandbox.sealed([key]) is None

    def test_keeping_a_state_of_a_closed_session_is_refused(self, sandbox: Sandbox, environment: Environment) -> None:
        session: Session = sandbox.open(environment)
        session.close()
        key = secrets.token_hex(32)
        with contextlib.suppress(SandboxFailure):
            assert not session.seal(key)
        assert sandbox.sealed([key]) is None
