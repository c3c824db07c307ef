"""Claude Code and Codex themselves, driven through the propose stage against a scripted model server on loopback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.records.candidate import CandidateStatus
from harnesstrain.core.records.llm import Usage
from harnesstrain.stages import propose
from harnesstrain.stages.propose.estimators.agent import AgenticEstimator
from harnesstrain.stages.propose.estimators.backends import ClaudeBackend, CodexBackend
from tests.stages.propose.conftest import MakeProject
from tests.stages.propose.making import CANARY, Project, agent_toml, running
from tests.stages.propose.modelserver import TOKENS, ModelServer

KEY = "sk-key-5d1e88aa"
VARIABLES = {"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY"}
MODELS = {"claude": "claude-sonnet-4-5", "codex": "gpt-5"}
CHANGE = "echo '# one change' >> agent/prompt.py; echo 'Say it twice' > /out/proposal.md"
AgentProject = Callable[..., Project]
pytestmark = pytest.mark.usefixtures("jailed")


@pytest.fixture(params=["claude", "codex"])
def agent(request: pytest.FixtureRequest, agents: Callable[[str], str]) -> str:
    """The name of an installed agent CLI."""
    agents(request.param)
    return str(request.param)


@pytest.fixture
def agent_project(project: MakeProject, agents: Callable[[str], str], agent: str) -> AgentProject:
    """Makes projects whose estimator is the agent, talking to a model server."""

    def make(server: ModelServer, *, tiny: bool = True, policy: str = "Keep it simple.\n", **more: object) -> Project:
        program = agents(agent)
        table: dict[str, object] = {"backend": agent, "program": program, "model": MODELS[agent], **more}
        return project(
            agent_toml(base_url=server.url, **table),  # type: ignore[arg-type]
            tiny=tiny,
            policy=policy,
            environ={VARIABLES[agent]: KEY},
        )

    return make


def test_a_change_becomes_a_candidate(agent: str, agent_project: AgentProject) -> None:
    look = "env | sort; cat /proc/self/environ; ls -la / /root /home /home/agent"
    with ModelServer([look, CHANGE]) as server:
        made = agent_project(server, tiny=False)
        candidate = made.propose(epoch=1)
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert (candidate.hypothesis, candidate.files) == ("Say it twice", ("agent/prompt.py",))
    assert made.file(candidate, "agent/prompt.py").endswith("# one change\n")
    assert candidate.source == f"{agent} ({MODELS[agent]})"
    assert candidate.usage == Usage(
        prompt=3 * TOKENS["prompt"], cached=3 * TOKENS["cached"], completion=3 * TOKENS["completion"]
    )
    assert (candidate.cost_usd is not None) == (agent == "claude")
    transcript = made.transcript(candidate)
    assert "I am done." in transcript and "one change" in transcript and "HT_HARNESS=/harness" in transcript
    received = "".join(server.received)
    assert "one mechanism" in received and "HT_HARNESS=/harness" in received
    assert KEY in received  # the agent needs it to reach its model
    assert KEY not in transcript
    kept = [path.read_bytes() for path in made.root.rglob("*") if path.is_file()]
    assert not any(secret.encode() in data for data in kept for secret in (KEY, CANARY))
    assert CANARY not in received + transcript + repr(made.heard.events)


def test_what_is_changed_outside_the_surface_is_refused(agent_project: AgentProject) -> None:
    with ModelServer([CHANGE + "; echo x >> harness.toml"]) as server:
        made = agent_project(server)
        candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert "harness.toml" in candidate.reason
    assert "I am done." in made.transcript(candidate)


def test_nothing_of_the_machine_can_be_read(agent: str, agent_project: AgentProject, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the host's own words\n")
    with ModelServer([f"cat {secret} ~root/.bash_history /etc/shadow; ls {tmp_path}; touch /evidence/x"]) as server:
        made = agent_project(server)
        candidate = made.propose()
    assert candidate.status is CandidateStatus.NO_CANDIDATE, candidate.reason
    received = "".join(server.received)
    assert "No such file or directory" in received and "Read-only file system" in received
    assert "the host's own words" not in received + made.transcript(candidate)


def test_a_model_that_never_answers_is_bounded_in_time(agent_project: AgentProject) -> None:
    with ModelServer(stall=True) as server:
        mark = f"mark-{os.urandom(8).hex()}"
        made = agent_project(server, policy=mark, time_limit=4.0)
        candidate = made.propose()
        assert server.asked.is_set()
    assert candidate.status is CandidateStatus.INVALID
    assert "longer than 4 seconds (time_limit)" in candidate.reason
    assert mark in made.transcript(candidate)
    assert running(mark) == []


@pytest.mark.parametrize(
    ("limit", "why"), [({"max_tokens": 4000}, "tokens, more than 4,000"), ({"max_turns": 3}, "times, more than 3")]
)
def test_tokens_and_replies_are_bounded_while_it_works(
    agent_project: AgentProject, limit: dict[str, object], why: str
) -> None:
    with ModelServer([CHANGE + "; sleep 0.5"], forever=True) as server:
        made = agent_project(server, time_limit=120.0, **limit)
        candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert why in candidate.reason
    assert candidate.usage.total >= 4 * (TOKENS["prompt"] + 1)
    assert len(server.received) < 12
    assert "==> stdout <==" in made.transcript(candidate)


def test_a_model_server_that_refuses_is_the_reason(agent: str, agent_project: AgentProject) -> None:
    with ModelServer(refuse=401) as server:
        made = agent_project(server, time_limit=60.0)
        candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    why = {
        "claude": "was ended: its model server refuses it: authentication_failed (401)",
        "codex": "failed with exit code 1: unexpected status 401 Unauthorized: no such key",
    }
    assert candidate.reason.startswith(f"{agent} ({MODELS[agent]}) {why[agent]}")


def test_the_memo_is_written_by_the_agent(agent_project: AgentProject) -> None:
    with ModelServer(["cp /evidence/program.md /out/memo.md"]) as server:
        made = agent_project(server)
        memo = propose.diagnose(made.context, propose.DiagnoseSpec(base=made.base, outcome="it was rejected"))
    assert (memo.text, memo.author) == ("Keep it simple.\n", "agent")
    assert memo.usage.total == 2 * (TOKENS["prompt"] + TOKENS["completion"])
    assert "What just happened: it was rejected" in "".join(server.received)


def test_a_cost_limit_is_kept(project: MakeProject, agents: Callable[[str], str]) -> None:
    program = agents("claude")
    with ModelServer([CHANGE], forever=True) as server:
        toml = agent_toml(
            backend="claude", program=program, model=MODELS["claude"], base_url=server.url, max_cost_usd=0.01
        )
        made = project(toml, environ={"ANTHROPIC_API_KEY": KEY})
        candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert "budget" in candidate.reason or "max_cost_usd" in candidate.reason
    assert candidate.cost_usd is not None and 0.01 <= candidate.cost_usd < 0.05
    assert len(server.received) < 12


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_backend_object_without_any_key(name: str, project: MakeProject, agents: Callable[[str], str]) -> None:
    with ModelServer([CHANGE]) as server:
        given = {"program": agents(name), "model": MODELS[name], "base_url": f"{server.url}/v1"}
        backend = ClaudeBackend(**given) if name == "claude" else CodexBackend(**given)
        made = project('[estimator.agent]\nbase_url = "http://127.0.0.1:9"\n')
        candidate = made.propose(AgenticEstimator(backend=backend))
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert (candidate.source, len(server.received)) == (f"{name} ({MODELS[name]})", 2)
