"""The contract of a sandbox as tests.  Subclass `SandboxContract`, give it a `sandbox` fixture, and run pytest.

class TestMine(SandboxContract):
    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls):
        sandbox = MySandbox()
        yield sandbox
        sandbox.close()
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError, HtError, SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import FileFault, Sandbox, Session
from harnesstrain.sandbox.contract_states import StatesContract

DOCKERFILE = """\
FROM {base}
WORKDIR /app
COPY data/ /app/
ENV GREETING=hello
RUN echo "$GREETING from the build" > built.txt
"""


class SandboxContract(StatesContract):
    """What every sandbox must do.  Tests that need isolation are skipped for kinds that say they have none."""

    base = "python:3.11-slim"
    """What FROM names; must be at hand for kinds that take it seriously."""

    @pytest.fixture(scope="class")
    @classmethod
    def sandbox(cls) -> Iterator[Sandbox]:
        """The sandbox under test."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def environment(cls, tmp_path_factory: pytest.TempPathFactory) -> Environment:
        """A small task environment, built from a Dockerfile."""
        context = tmp_path_factory.mktemp("environment")
        (context / "data").mkdir()
        (context / "data" / "fact.txt").write_text("water is wet\n")
        (context / "data" / "tool.sh").write_text("#!/bin/sh\necho tool\n")
        (context / "data" / "tool.sh").chmod(0o755)
        (context / "Dockerfile").write_text(DOCKERFILE.format(base=cls.base))
        return Environment(context=context, env={"TASK": "contract"})

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, sandbox: Sandbox, environment: Environment) -> Iterator[Session]:
        """One session for the tests that leave it usable."""
        session = sandbox.open(environment)
        yield session
        session.close()

    @pytest.fixture
    def isolated(self, sandbox: Sandbox) -> None:
        """Skips where nothing is isolated."""
        if not sandbox.capabilities().isolated:
            pytest.skip(f"{sandbox.capabilities().kind} says that it does not isolate")

    # --- what it is ---

    def test_follows_the_protocols(self, sandbox: Sandbox, session: Session) -> None:
        assert isinstance(sandbox, Sandbox)
        assert isinstance(session, Session)

    def test_identity_is_stable_and_says_its_kind(self, sandbox: Sandbox) -> None:
        assert sandbox.identity() == sandbox.identity()
        assert sandbox.identity().kind == sandbox.capabilities().kind

    def test_an_instruction_it_cannot_build_is_refused_by_name_before_anything_runs(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        if sandbox.capabilities().kind not in ("local", "process"):
            pytest.skip("this kind builds every Dockerfile")
        (tmp_path / "Dockerfile").write_text("FROM x\nRUN touch made\nHEALTHCHECK CMD true\n")
        with pytest.raises(Unsupported, match=r"HEALTHCHECK \(Dockerfile line 3\)"):
            sandbox.check(Environment(context=tmp_path))

    def test_a_context_without_dockerfile_is_a_config_error(self, sandbox: Sandbox, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="Dockerfile"):
            sandbox.open(Environment(context=tmp_path))

    def test_a_build_that_fails_says_what_it_printed(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "Dockerfile").write_text(f"FROM {self.base}\nRUN echo the reason >&2 && exit 7\n")
        with pytest.raises(SandboxFailure, match="(?s)the reason|returned a non-zero code: 7"):
            sandbox.open(Environment(context=tmp_path))

    # --- commands ---

    def test_the_environment_is_built_as_written(self, session: Session) -> None:
        assert session.read("built.txt") == b"hello from the build\n"
        assert session.read("/app/fact.txt") == b"water is wet\n"
        assert session.run("./tool.sh; echo $GREETING $TASK").stdout == b"tool\nhello contract\n"

    def test_exit_code_and_both_streams(self, session: Session) -> None:
        result = session.run("echo out; echo err >&2; exit 3")
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
        assert not (result.timed_out or result.truncated or result.held_open)
        assert result.duration > 0

    def test_a_signal_is_reported_as_a_shell_does(self, session: Session) -> None:
        assert session.run("kill -SEGV $$").exit_code == 139

    def test_commands_start_in_the_working_directory(self, session: Session) -> None:
        assert session.run("ls fact.txt; mkdir -p deep/er").stdout == b"fact.txt\n"
        assert session.run("ls ../../fact.txt", cwd="deep/er").stdout == b"../../fact.txt\n"
        assert session.run("ls fact.txt", cwd="/app").stdout == b"fact.txt\n"

    def test_a_missing_working_directory_is_the_commands_failure(self, session: Session) -> None:
        result = session.run("echo never", cwd="no/such")
        assert result.exit_code == 126
        assert result.stdout == b""

    def test_variables_of_one_call_do_not_stay(self, session: Session) -> None:
        assert session.run('echo "$A"', env={"A": "it's $here\nand there"}).stdout == b"it's $here\nand there\n"
        assert session.run('echo "[$A]"').stdout == b"[]\n"

    def test_no_stdin_unless_given(self, session: Session) -> None:
        assert session.run("cat", timeout=20).stdout == b""
        data = bytes(range(256)) * 2000
        assert session.run("cat", stdin=data, timeout=20).stdout[: 1 << 16] == data[: 1 << 16]
        assert session.run("true", stdin=data, timeout=20).exit_code == 0

    def test_output_is_kept_byte_for_byte(self, session: Session) -> None:
        assert session.run(r"printf '\000\377\200END 0\nOK 3\n'").stdout == b"\0\xff\x80END 0\nOK 3\n"

    def test_a_command_with_a_nul_byte_fails_and_the_sandbox_lives(self, session: Session) -> None:
        assert session.run("echo a\0b").exit_code != 0
        assert session.run("echo lives").stdout == b"lives\n"

    def test_a_never_ending_command_ends_with_what_it_started(self, session: Session) -> None:
        result = session.run("echo first; (trap '' TERM; sleep 4242) & setsid sleep 4242 & sleep 4242", timeout=1)
        assert (result.exit_code, result.timed_out, result.stdout) == (124, True, b"first\n")
        assert session.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]leep 4242'").stdout == b"0\n"

    def test_a_background_process_that_holds_the_output_does_not_hold_the_caller(self, session: Session) -> None:
        result = session.run("sleep 300 & echo $! > pid; echo started", timeout=60)
        assert (result.stdout, result.exit_code, result.timed_out) == (b"started\n", 0, False)
        assert result.held_open
        assert result.left >= 1
        assert session.run("kill -0 $(cat pid) && kill -9 $(cat pid)").exit_code == 0

    def test_what_commands_left_running_can_be_ended(self, session: Session) -> None:
        session.run("(trap '' TERM; sleep 5151) >/dev/null 2>&1 & setsid sleep 5151 >/dev/null 2>&1 & echo started")
        session.end_processes()
        assert session.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]leep 5151'").stdout == b"0\n"

    def test_output_is_bounded_head_and_tail(self, sandbox: Sandbox, environment: Environment) -> None:
        session = sandbox.open(environment, limits=Limits(output_bytes=2000))
        try:
            result = session.run("echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last", timeout=120)
            assert result.truncated
            assert result.exit_code == 0
            assert result.stdout.startswith(b"first\nxxx")
            assert result.stdout.endswith(b"xxx\nlast\n")
            assert b"bytes dropped" in result.stdout
            assert len(result.stdout) < 2200
        finally:
            session.close()

    def test_state_stays_between_commands_and_not_between_sessions(
        self, sandbox: Sandbox, session: Session, environment: Environment
    ) -> None:
        session.run("echo mine > state.txt")
        assert session.read("state.txt") == b"mine\n"
        other = sandbox.open(environment)
        try:
            assert other.run("ls state.txt").exit_code != 0
        finally:
            other.close()

    # --- files ---

    def test_files_come_back_as_written(self, session: Session) -> None:
        data = bytes(range(256)) * 4096
        session.write("new/folder/file with space", data)
        assert session.read("/app/new/folder/file with space") == data
        session.write("run.sh", b"#!/bin/sh\necho ran\n", 0o755)
        assert session.run("./run.sh").stdout == b"ran\n"
        session.write("run.sh", b"#!/bin/sh\necho again\n")
        assert session.run("./run.sh").stdout == b"again\n"

    @pytest.mark.parametrize(
        ("path", "errno"), [("nothing", "ENOENT"), ("/app", "EISDIR"), ("/dev/zero", "EINVAL"), ("a\0b", "EINVAL")]
    )
    def test_what_cannot_be_read_is_a_file_fault(self, session: Session, path: str, errno: str) -> None:
        with pytest.raises(FileFault) as fault:
            session.read(path)
        assert fault.value.errno == errno

    def test_a_pipe_is_neither_read_nor_written(self, session: Session) -> None:
        session.run("rm -f pipe; mkfifo pipe")
        with pytest.raises(FileFault):
            session.read("pipe")
        with pytest.raises(FileFault):
            session.write("pipe", b"x")
        with pytest.raises(FileFault):
            session.write("/app", b"x")

    def test_put_discards_what_was_there(self, session: Session, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "test.sh").write_text("echo graded\n")
        (tmp_path / "sub" / "data").write_bytes(b"\0\xff")
        (tmp_path / "link").symlink_to("sub/data")
        session.run("mkdir -p /tests/planted; echo forged > /tests/test.sh")
        session.put(tmp_path, "/tests")
        assert session.run("sh /tests/test.sh; ls /tests").stdout == b"graded\nlink\nsub\ntest.sh\n"
        assert session.read("/tests/link") == b"\0\xff"
        session.run("rm -rf /tests; ln -s /app /tests")
        session.put(tmp_path, "/tests")
        assert session.read("/app/fact.txt") == b"water is wet\n"
        assert session.run("test -L /tests").exit_code == 1

    def test_put_is_not_led_through_a_link(self, session: Session, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        session.run("rm -rf /app/hop; mkdir -p /app/real; ln -s /app/real /app/hop")
        with pytest.raises(FileFault):
            session.put(tmp_path, "/app/hop/target")
        assert session.run("ls /app/real").stdout == b""

    @pytest.mark.parametrize("target", ["/", "relative", "/app/../etc", "/.."])
    def test_put_refuses_targets_that_are_none(self, session: Session, tmp_path: Path, target: str) -> None:
        with pytest.raises(FileFault):
            session.put(tmp_path, target)

    def test_put_refuses_sources_that_lead_out(self, session: Session, tmp_path: Path) -> None:
        for make in (
            lambda path: path.symlink_to("/etc/passwd"),
            lambda path: path.symlink_to("../../outside"),
            lambda path: os.mkfifo(path),
        ):
            source = tmp_path / "source"
            source.mkdir(exist_ok=True)
            (source / "bad").unlink(missing_ok=True)
            make(source / "bad")
            with pytest.raises(ConfigError):
                session.put(source, "/tests")

    def test_a_tree_comes_back_as_it_is(self, session: Session, tmp_path: Path) -> None:
        session.run(
            "rm -rf out; mkdir -p out/deep/er out/empty; cd out; printf 'a\\0b' > data; echo hid > .hidden; : > none;"
            "echo true > run; chmod 4755 run; echo x > 'deep/er/with space'; chmod 0 deep/er/w*;"
            "ln -s ../data deep/link; ln -s deep folder"
        )
        fetched = session.get("out", tmp_path / "got")
        found = sorted(path.relative_to(tmp_path / "got").as_posix() for path in (tmp_path / "got").rglob("*"))
        assert found == sorted(
            (".hidden", "data", "deep", "deep/er", "deep/er/with space", "deep/link", "empty", "folder", "none", "run")
        )
        assert (fetched.files, fetched.size, fetched.left_out) == (5, 3 + 4 + 0 + 5 + 2, ())
        assert (tmp_path / "got" / "data").read_bytes() == b"a\0b"
        assert (tmp_path / "got" / "deep" / "link").readlink() == Path("../data")
        assert stat.S_IMODE((tmp_path / "got" / "run").stat().st_mode) == 0o755
        assert (tmp_path / "got" / "deep" / "er" / "with space").read_text() == "x\n"
        session.put(tmp_path / "got", "/app/again")
        assert (
            session.run("cat again/deep/link | wc -c; ls again").stdout == b"3\ndata\ndeep\nempty\nfolder\nnone\nrun\n"
        )

    def test_one_file_comes_back(self, session: Session, tmp_path: Path) -> None:
        session.write("/app/one", b"\0\xff" * 200_000)
        assert session.get("/app/one", tmp_path / "one").size == 400_000
        assert (tmp_path / "one").read_bytes() == session.read("/app/one")

    def test_what_leads_out_or_is_no_file_stays_behind_and_is_named(self, session: Session, tmp_path: Path) -> None:
        session.run(
            "rm -rf out; mkdir -p out/p/q/r s out/s; cd out; ln -s /etc/passwd absolute; ln -s ../../s up; mkfifo pipe;"
            "ln -s ../../../s p/q/r/d; ln -s d/../../fact.txt p/q/r/trick; ln -s gone dangling; ln -s me me;"
            "ln -s /app/out/s long_way; echo fine > fine"
        )
        fetched = session.get("/app/out", tmp_path / "got")
        assert fetched.left_out == ("absolute", "dangling", "long_way", "me", "p/q/r/trick", "pipe", "up")
        assert (tmp_path / "got" / "p" / "q" / "r" / "d").readlink() == Path("../../../s")
        assert (tmp_path / "got" / "fine").read_text() == "fine\n"
        assert session.run("echo lives").stdout == b"lives\n"

    @pytest.mark.parametrize(
        ("path", "errno"), [("/app/nothing", "ENOENT"), ("/dev/zero", "EINVAL"), ("a\0b", "EINVAL")]
    )
    def test_what_cannot_be_got_is_a_file_fault(self, session: Session, tmp_path: Path, path: str, errno: str) -> None:
        with pytest.raises(FileFault) as fault:
            session.get(path, tmp_path / "got")
        assert fault.value.errno == errno
        assert not (tmp_path / "got").exists()
        assert session.run("echo lives").stdout == b"lives\n"

    def test_no_more_comes_out_than_allowed(self, session: Session, tmp_path: Path) -> None:
        session.run("rm -rf out; mkdir out; head -c 60000 /dev/zero > out/a; head -c 60000 /dev/zero > out/b")
        for name in ("out", "out/b"):
            with pytest.raises(FileFault) as fault:
                session.get(name, tmp_path / "got", limit=50_000)
            assert fault.value.errno == "EFBIG"
            assert not (tmp_path / "got").exists()
        assert session.get("out", tmp_path / "got", limit=130_000).size == 120_000
        session.run("rm -rf out; mkdir out; cd out; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do : > $i; done")
        with pytest.raises(FileFault):
            session.get("out", tmp_path / "many", limit=1000)

    def test_nothing_is_written_over(self, session: Session, tmp_path: Path) -> None:
        session.write("/app/one", b"new")
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        for name in ("link", ""):
            with pytest.raises(SandboxFailure, match="there already"):
                session.get("/app/one", tmp_path / name)
        assert not (tmp_path / "elsewhere").exists()
        assert session.run("echo lives").stdout == b"lives\n"

    # --- grading, isolation, ends ---

    def test_a_fork_has_the_state_and_leaves_it(self, sandbox: Sandbox, environment: Environment) -> None:
        session = sandbox.open(environment)
        try:
            session.run("echo final > answer.txt; rm fact.txt")
            if not sandbox.capabilities().forks:
                with pytest.raises(Unsupported):
                    session.fork()
                return
            fork = session.fork()
            try:
                assert fork.run("cat answer.txt; ls fact.txt").stdout == b"final\n"
                fork.run("echo graded > answer.txt")
                assert fork.read("answer.txt") == b"graded\n"
                assert session.read("answer.txt") == b"final\n"
                with pytest.raises(SandboxFailure, match="sealed"):
                    session.run("echo more > answer.txt")
            finally:
                fork.close()
        finally:
            session.close()

    @pytest.mark.usefixtures("isolated")
    def test_nothing_of_the_host_is_seen(self, session: Session) -> None:
        assert session.run("hostname 2>/dev/null || cat /proc/sys/kernel/hostname").stdout == b"sandbox\n"
        assert session.run(f"ls {Path(__file__).parent}").exit_code != 0
        assert session.run(f"kill -0 {os.getpid()}").exit_code != 0
        assert os.environ.get("PYTEST_CURRENT_TEST", "")
        assert b"PYTEST_CURRENT_TEST" not in session.run("env; cat /proc/1/environ").stdout

    @pytest.mark.usefixtures("isolated")
    def test_the_kernel_cannot_be_reached(self, session: Session) -> None:
        for name in ("kernel/core_pattern", "kernel/panic", "vm/overcommit_memory"):
            assert session.run(f"echo 1 > /proc/sys/{name}").exit_code != 0
        assert session.run("mount -t tmpfs none /mnt").exit_code != 0
        assert session.run("mknod disk b 254 0 && head -c 1 disk").exit_code != 0

    def test_a_closed_session_says_so(self, sandbox: Sandbox, environment: Environment) -> None:
        session = sandbox.open(environment)
        session.close()
        session.close()
        with pytest.raises(SandboxFailure):
            session.run("true")

    def test_sessions_run_side_by_side(self, sandbox: Sandbox, environment: Environment) -> None:
        found: list[bytes] = []
        problems: list[HtError] = []

        def work(number: int) -> None:
            try:
                with contextlib.closing(sandbox.open(environment)) as session:
                    session.run(f"echo {number} > number.txt")
                    found.append(session.read("number.txt"))
            except HtError as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems
        assert sorted(found) == [b"0\n", b"1\n", b"2\n", b"3\n"]

    def test_a_sweep_leaves_what_is_in_use(self, sandbox: Sandbox, session: Session) -> None:
        sandbox.sweep()
        assert session.run("echo still").stdout == b"still\n"
