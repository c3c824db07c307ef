"""The agent estimator with agents that are shell scripts: capture, refusals, limits, the jail, secrets, the memo."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.errors import Incomplete, Prerequisite
from harnesstrain.core.records.candidate import CandidateStatus
from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.stages import propose
from harnesstrain.stages.propose.estimators import watch
from harnesstrain.stages.propose.estimators.agent import AgenticEstimator
from harnesstrain.stages.propose.estimators.backends import CommandBackend
from tests.stages.propose.conftest import MakeProject
from tests.stages.propose.making import CANARY, agent_toml, running, script

KEY = "sk-key-5d1e88aa"
CHANGE = "echo Better. > prompts/system.md; "
pytestmark = pytest.mark.usefixtures("jailed")


def test_a_change_is_captured_with_its_hypothesis_and_transcript(project: MakeProject) -> None:
    said = "printf '# Be better\\n\\nPredicted: `a`, b\\n' > $HT_OUT/proposal.md"
    made = project(script(f"{CHANGE} echo to stdout; echo to stderr >&2; {said}"))
    candidate = made.propose(epoch=3)
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert (candidate.hypothesis, candidate.predicted) == ("Be better", ("a", "b"))
    assert (candidate.files, candidate.source, candidate.epoch) == (("prompts/system.md",), "command", 3)
    assert made.file(candidate, "prompts/system.md") == "Better.\n"
    assert made.context.repo.parents(candidate.commit or "") == (made.base,)
    prompt, stdout, stderr, end = made.transcript(candidate).split("==> ")[1:]
    assert "prompts/*.md" in prompt and "Keep it simple." in prompt and "/out/proposal.md" in prompt
    assert (stdout, stderr) == ("stdout <==\nto stdout\n\n", "stderr <==\nto stderr\n\n")
    assert end.startswith("end <==\nexit 0 after")
    assert made.context.store.candidate(candidate.id) == candidate
    assert not list(made.context.state.glob("worktrees/*"))


def test_placeholders_are_filled_once_and_the_prompt_file_holds_the_prompt(project: MakeProject) -> None:
    program = 'printf "%s" "$1" | cmp - "$2" && echo "$3|$4|$5|{x}" && ' + CHANGE
    names = ("{prompt}", "{prompt_file}", "{harness}", "{evidence}", "{out}")
    made = project(agent_toml("sh", "-c", program, "agent", *names), policy="Never write {out} or {prompt}.\n")
    candidate = made.propose()
    assert candidate.status is CandidateStatus.CANDIDATE, made.transcript(candidate)
    assert "\n/harness|/evidence|/out|{x}\n" in made.transcript(candidate)
    assert "Never write {out} or {prompt}." in made.transcript(candidate)


@pytest.mark.parametrize(("edit", "why"), [
    ("echo x >> harness.toml", "harness.toml"),
    ("echo x >> ht_sdk.py", "ht_sdk.py"),
    ("ln -s /etc/passwd prompts/passwd.md", "prompts/passwd.md"),
    ("mkfifo prompts/pipe.md", "prompts/pipe.md"),
    ("rm program.md", "program.md"),
])  # fmt: skip
def test_a_change_outside_the_surface_is_no_candidate(project: MakeProject, edit: str, why: str) -> None:
    made = project(script(f"{CHANGE} {edit}; echo Hypothesis: sly > $HT_OUT/proposal.md"))
    candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert why in candidate.reason and candidate.commit is None
    assert candidate.hypothesis == "sly"
    assert "==> prompt <==" in made.transcript(candidate)
    assert made.context.repo.head() == made.base and made.context.repo.dirty() == ()


def test_no_change_is_said_with_the_agent_s_reason(project: MakeProject) -> None:
    made = project(script("echo 'Nothing is left to try.' > $HT_OUT/proposal.md; echo looked"))
    candidate = made.propose()
    assert (candidate.status, candidate.reason) == (CandidateStatus.NO_CANDIDATE, "the estimator left no change")
    assert candidate.hypothesis == "Nothing is left to try."
    assert "looked" in made.transcript(candidate)


def test_a_crash_is_recorded_with_its_last_words(project: MakeProject) -> None:
    made = project(script(f"{CHANGE} echo working; echo first >&2; echo it went bad >&2; exit 7"))
    candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert candidate.reason == "command failed with exit code 7: it went bad"
    assert "working" in made.transcript(candidate)


@pytest.mark.parametrize(("text", "limit", "why"), [
    ("sleep 600", {"time_limit": 1.0}, "longer than 1 seconds"),
    ("trap '' TERM INT HUP; while :; do :; done", {"time_limit": 1.0}, "longer than 1 seconds"),
    ("sleep 1 & while :; do echo y; done", {"time_limit": 2.0}, "longer than 2 seconds"),
    ("head -c 40000000 /dev/zero > $HT_OUT/fill; sleep 600", {"disk_mb": 20}, "more than 20 MB"),
    ("head -c 40000000 /dev/zero > fill; sleep 600", {"disk_mb": 20}, "more than 20 MB"),
])  # fmt: skip
def test_limits_end_it_and_everything_it_started(
    project: MakeProject, monkeypatch: pytest.MonkeyPatch, text: str, limit: dict[str, float], why: str
) -> None:
    monkeypatch.setattr(watch, "TRANSCRIPT", 100_000)
    mark = f"mark-{os.urandom(8).hex()}"
    made = project(script(f"(setsid sh -c 'sleep 600; : {mark}' &) ; echo began; {text}", **limit))
    candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert candidate.reason.startswith("command was ended: it ") and why in candidate.reason
    transcript = made.transcript(candidate)
    assert "began" in transcript and why in transcript
    assert len(transcript) < 110_000
    assert running(mark) == []


def test_stopping_ends_it_and_records_nothing(project: MakeProject) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    made = project(script(f"{CHANGE} sleep 600; : {mark}"))
    made.heard.then["works on it"] = made.stop.set
    with pytest.raises(Incomplete, match="stopped while the agent worked"):
        made.propose()
    assert list(made.context.store.candidates()) == []
    assert running(mark) == []
    assert not list(made.context.state.glob("worktrees/*"))


def test_a_flood_of_processes_is_bounded(project: MakeProject) -> None:
    text = "i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done; echo never"
    made = project(script(f"({text}) 2>&1 | tail -1", pids=40, time_limit=3.0))
    candidate = made.propose()
    assert "never" not in made.transcript(candidate).partition("==> stdout")[2]


def test_the_jail_shows_nothing_of_the_machine(project: MakeProject, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the host's own words\n")
    store = tmp_path / "repo0" / ".ht"
    text = f"cat {secret}; ls {tmp_path} {store} {tmp_path}/repo0 /root /home/* /work /var /run /sys /boot /srv; "
    text += "ls -d .git; touch /evidence/x /x /usr/x /etc/x; "
    text += "echo home: $(echo $HOME); id -u; mount -t tmpfs none /tmp; unshare -r true; chroot / true; exit 0"
    made = project(script(text))
    candidate = made.propose()
    transcript = made.transcript(candidate)
    assert "the host's own words" not in transcript
    assert f"cat: {secret}: No such file" in transcript and f"cannot access '{store}'" in transcript
    for place in ("/evidence/x", "/x", "/usr/x", "/etc/x"):
        assert f"touch: cannot touch '{place}'" in transcript
    assert "home: /home/agent\n1000\n" in transcript
    assert "mount: " in transcript and "unshare: " in transcript and "chroot: " in transcript
    assert candidate.status is CandidateStatus.NO_CANDIDATE


def test_only_named_variables_arrive_and_no_value_of_theirs_is_kept(project: MakeProject) -> None:
    text = f'{CHANGE} env; echo $MY_KEY >&2; echo "With $MY_KEY it is better" > $HT_OUT/proposal.md'
    made = project(script(text, pass_env=["MY_KEY", "NOT_SET"]), environ={"MY_KEY": KEY, "OTHER": "other-value-1"})
    candidate = made.propose()
    transcript = made.transcript(candidate)
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert "MY_KEY=[MY_KEY]" in transcript and "NOT_SET=" not in transcript
    assert candidate.hypothesis == "With [MY_KEY] it is better"
    everything = transcript + candidate.model_dump_json() + repr(made.heard.events)
    for value in (KEY, CANARY, "other-value-1"):
        assert value not in everything
        assert all(value.encode() not in path.read_bytes() for path in made.root.rglob("*") if path.is_file())


@pytest.mark.parametrize("edit", ["echo $MY_KEY >> prompts/system.md", "touch prompts/$MY_KEY.md"])
def test_a_change_that_holds_a_passed_value_is_refused(project: MakeProject, edit: str) -> None:
    made = project(script(f"{CHANGE} {edit}", pass_env=["MY_KEY"]), environ={"MY_KEY": KEY})
    candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert candidate.reason.startswith("the change holds the value of MY_KEY, in prompts/")
    assert KEY not in candidate.model_dump_json() + made.transcript(candidate)
    refs = made.context.repo.refs()
    assert refs == {}


def test_a_value_is_in_no_argument_list(project: MakeProject) -> None:
    made = project(script("sleep 1; echo", pass_env=["MY_KEY"]), environ={"MY_KEY": KEY})
    seen: list[bytes] = []

    class Looking:
        """A stop signal that is asked while the agent runs, and looks around."""

        def is_set(self) -> bool:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.append(path.read_bytes())
            return False

    made.context.stop = Looking()
    made.propose()
    assert any(b"sleep" in line for line in seen)
    assert not any(KEY.encode() in line or KEY.encode().hex().encode() in line for line in seen)


@pytest.mark.parametrize("answer", ["ln -s /etc/passwd", "mkfifo", "mkdir"])
def test_an_answer_that_is_no_file_is_no_answer(project: MakeProject, answer: str) -> None:
    made = project(script(f"{CHANGE} {answer} $HT_OUT/proposal.md"))
    candidate = made.propose()
    assert candidate.status is CandidateStatus.CANDIDATE
    assert candidate.hypothesis == "A change by command"


def test_the_network_can_be_taken_away(project: MakeProject) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f'import socket; socket.create_connection(("127.0.0.1", {port})); print("through")'
        text = f"{CHANGE} python3 -c '{connect}'"
        transcripts = []
        for network in (True, False):
            made = project(script(text, network=network))
            transcripts.append(made.transcript(made.propose()))
    assert ["\nthrough\n" in transcript for transcript in transcripts] == [True, False]


def test_the_harness_s_own_python_is_there(project: MakeProject) -> None:
    made = project(script("python -m pytest -q && " + CHANGE), tiny=False)
    candidate = made.propose()
    assert candidate.status is CandidateStatus.CANDIDATE, made.transcript(candidate)
    assert " passed" in made.transcript(candidate)


def test_more_files_can_be_shown(project: MakeProject, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("noted\n")
    binds = ["../notes", "../notes/a.txt:/home/agent/.config/a.txt"]
    text = f"cat {tmp_path}/notes/a.txt ~/.config/a.txt; touch {tmp_path}/notes/b.txt"
    made = project(script(text, binds=binds))
    transcript = made.transcript(made.propose())
    assert "noted\nnoted\n" in transcript and "Read-only file system" in transcript


def test_an_npm_package_is_shown_with_its_scope(project: MakeProject, tmp_path: Path) -> None:
    scope = tmp_path / "node_modules/@me"
    for name, text in {
        "agent/bin/agent.js": "#!/usr/bin/env my-interpreter\nthe first line is not read\n",
        "agent-linux/data.txt": "the platform's own\n",
    }.items():
        (scope / name).parent.mkdir(parents=True)
        (scope / name).write_text(text)
    (tmp_path / "node_modules/other").mkdir()
    (tmp_path / "node_modules/other/data.txt").write_text("somebody else's\n")
    (scope / "agent/bin/agent.js").chmod(0o755)
    tools = tmp_path / "tools"
    tools.mkdir()
    look = f"cat $(dirname $1)/../../agent-linux/data.txt\nls {tmp_path}/node_modules\n"
    (tools / "real").write_text(f"#!/bin/sh\n{look}")
    (tools / "real").chmod(0o755)
    (tools / "my-interpreter").symlink_to("real")
    (tools / "my-agent").symlink_to(scope / "agent/bin/agent.js")
    made = project(agent_toml("my-agent"), environ={"PATH": f"{tools}:{os.environ['PATH']}"})
    transcript = made.transcript(made.propose())
    assert "the platform's own\n" in transcript
    assert "@me" in transcript and "other" not in transcript.partition("==> stdout")[2]


def test_the_memo_is_the_agent_s(project: MakeProject) -> None:
    text = "cat /evidence/ledger.md > $HT_OUT/memo.md; echo $MY_KEY >> $HT_OUT/memo.md; echo no >> harness.toml"
    made = project(script(text, pass_env=["MY_KEY"]), environ={"MY_KEY": KEY})
    spec = propose.DiagnoseSpec(base=made.base, epoch=1, outcome="it was rejected")
    memo = propose.diagnose(made.context, spec)
    assert (memo.text, memo.author, memo.epoch) == ("Nothing was tried yet.\n[MY_KEY]\n", "agent", 1)
    assert made.context.store.memo() == memo
    assert memo.transcript is not None
    told = made.context.store.blob(memo.transcript).decode()
    assert "What just happened: it was rejected" in told and "/out/memo.md" in told
    assert made.context.store.gc(grace=0).files == 0
    assert made.context.repo.dirty() == ()


@pytest.mark.parametrize(("text", "why"), [("exit 3", "exit code 3"), ("true", "wrote no memo")])
def test_without_the_agent_s_the_memo_is_made_of_facts(project: MakeProject, text: str, why: str) -> None:
    made = project(script(text))
    memo = propose.diagnose(made.context, propose.DiagnoseSpec(base=made.base, outcome="it was rejected"))
    assert memo.author == "harnesstrain" and "Last: it was rejected" in memo.text
    assert memo.transcript is not None
    assert any(why in warning for warning in made.heard.said("warning"))


def test_the_memo_can_be_left_to_the_facts(project: MakeProject) -> None:
    made = project(script("exit 3", diagnose=False))
    memo = propose.diagnose(made.context, propose.DiagnoseSpec(base=made.base, outcome="it was rejected"))
    assert (memo.author, memo.transcript, made.heard.said("warning")) == ("agent", None, [])


def test_a_stopped_memo_is_made_of_facts(project: MakeProject) -> None:
    made = project(script("sleep 600"))
    made.stop.set()
    memo = propose.diagnose(made.context, propose.DiagnoseSpec(base=made.base, outcome="it was rejected"))
    assert memo.author == "harnesstrain"


def test_an_estimator_of_one_s_own_backend(project: MakeProject) -> None:
    made = project("[estimator.agent]\ntime_limit = 60\n")
    estimator = AgenticEstimator(backend=CommandBackend("sh", "-c", CHANGE))
    assert made.propose(estimator).status is CandidateStatus.CANDIDATE


def test_a_jail_that_cannot_be_made_is_no_failed_proposal(
    project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = project(script("true"))
    monkeypatch.setattr("harnesstrain.core.confinement.bubblewrap", lambda: "/nowhere/bwrap")
    with pytest.raises(Prerequisite, match="jail of the agent could not be made: confinement: "):
        made.propose()


DRIVER = """
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tests.stages.propose.making import Project, script
made = Project(Path(sys.argv[1]) / "repo", script(sys.argv[2]), environ={})
candidate = made.propose()
print(candidate.status.value, made.transcript(candidate))
made.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount an overlay")
def test_a_file_system_that_maps_no_owners(tmp_path: Path) -> None:
    for name in ("lower", "memory", "place"):
        (tmp_path / name).mkdir()
    mounts = (
        "mount -t tmpfs none memory && mkdir memory/upper memory/work && "
        "mount -t overlay none -o lowerdir=lower,upperdir=memory/upper,workdir=memory/work place && "
        'TMPDIR=$PWD/place PYTHONPATH=$0 exec "$@"'
    )
    text = f"{CHANGE} cat /evidence/ledger.md; id -u"
    program = [sys.executable, "-c", DRIVER, str(tmp_path / "place"), text]
    root = str(Path(__file__).parents[3])
    argv = ["unshare", "-m", "sh", "-c", mounts, root, *program]
    run = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    if "mount:" in run.stderr:
        pytest.skip(f"no overlay can be mounted: {run.stderr.strip()}")
    assert run.stdout.startswith("candidate "), run.stdout + run.stderr
    assert "Nothing was tried yet.\n1000\n" in run.stdout


def test_kill_9_leaves_nothing_running(tmp_path: Path) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    text = f"(setsid sh -c 'sleep 600; : {mark}' &) ; sleep 600"
    argv = [sys.executable, "-c", DRIVER, str(tmp_path), text]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[3], stdout=subprocess.DEVNULL) as driver:
        until(lambda: any(process.name() == "sh" for process in running(mark) if process.pid != driver.pid))
        driver.kill()
        driver.wait()
        until(lambda: running(mark) == [])
    left = tmp_path / "repo/.ht/worktrees"
    assert len([path for path in left.iterdir() if path.is_dir()]) == 3
    assert HarnessRepo.open(tmp_path / "repo").sweep() == 3
    assert list(left.iterdir()) == []


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
