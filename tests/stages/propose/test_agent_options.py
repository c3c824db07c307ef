"""What [estimator.agent] takes and refuses, and an agent without a jail."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from harnesstrain.core import confinement
from harnesstrain.core.errors import ConfigError, HtError, Prerequisite
from harnesstrain.core.records.candidate import CandidateStatus
from harnesstrain.stages import propose
from harnesstrain.stages.propose.estimators.agent import AgentOptions
from harnesstrain.stages.propose.estimators.llm import LlmOptions
from harnesstrain.stages.propose.estimators.patches import PatchesOptions
from tests.stages.propose.conftest import MakeProject
from tests.stages.propose.making import CANARY, agent_toml, running, script

TRUE = {"command": ["true"]}


@pytest.mark.parametrize(("table", "kind", "why", "hint"), [
    ({}, ConfigError, "names no agent", "backend ="),
    ({"backend": "cloude"}, ConfigError, "backend should be 'claude' or 'codex'", "keys"),
    ({**TRUE, "backend": "codex"}, ConfigError, "a command and a backend", "keep one"),
    ({**TRUE, "time_limt": 3}, ConfigError, "no key 'time_limt'", "did you mean 'time_limit'"),
    ({**TRUE, "time_limit": 0}, ConfigError, "time_limit should be greater than 0", "keys"),
    ({**TRUE, "max_tokens": 5}, ConfigError, "max_tokens cannot be kept", "time_limit holds"),
    ({**TRUE, "max_turns": 5}, ConfigError, "max_turns cannot be kept", "time_limit holds"),
    ({"backend": "codex", "max_cost_usd": 5}, ConfigError, "max_cost_usd cannot be kept", "time_limit holds"),
    ({**TRUE, "pass_env": ["sk-abc-123"]}, ConfigError, "pass_env.0 takes the name of", "keys"),
    ({**TRUE, "pass_env": ["MY_KEY"]}, Prerequisite, "none of MY_KEY is set", "export MY_KEY"),
    ({"backend": "claude"}, Prerequisite, "claude has no credential: none of ANTHROPIC_API_KEY", "pass_env"),
    ({"command": ["{prompt}"]}, ConfigError, "starts with a program", "command ="),
    ({"command": ["no-such-agent"]}, Prerequisite, "'no-such-agent' is not there", "install"),
    ({"command": ["./no-such-agent"]}, Prerequisite, "'./no-such-agent' is not there", "install"),
    ({**TRUE, "binds": ["nowhere"]}, ConfigError, "nowhere is not there", "file or a directory"),
    ({**TRUE, "binds": [".:/harness/"]}, ConfigError, "nothing can be shown at /harness/", "another"),
    ({**TRUE, "binds": [".:relative"]}, ConfigError, "nothing can be shown at relative", "another"),
    ({**TRUE, "base_url": "http://u:p@h"}, ConfigError, "must not contain a password", "keys"),
])  # fmt: skip
def test_wrong_options_are_errors_of_one_line(
    project: MakeProject, table: dict[str, object], kind: type[HtError], why: str, hint: str
) -> None:
    made = project(agent_toml(**table))  # type: ignore[arg-type]
    with pytest.raises(kind) as caught:
        made.propose()
    assert why in caught.value.message and "\n" not in caught.value.message
    assert hint in (caught.value.hint or "")
    assert list(made.context.store.candidates()) == []


@pytest.fixture
def no_jail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "unavailable", lambda: "bubblewrap is not installed")


@pytest.mark.usefixtures("no_jail")
def test_without_a_jail_it_is_refused(project: MakeProject) -> None:
    made = project(script("echo x > prompts/system.md"))
    with pytest.raises(Prerequisite, match="no jail for the agent: bubblewrap is not installed") as caught:
        made.propose()
    assert "sandbox.allow_unisolated" in (caught.value.hint or "")


@pytest.mark.usefixtures("no_jail")
def test_without_a_jail_it_runs_when_that_is_allowed_and_says_so(
    project: MakeProject, caplog: pytest.LogCaptureFixture
) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    text = f"echo Better > prompts/system.md; env; pwd; (setsid sh -c 'sleep 600; : {mark}' >/dev/null 2>&1 &) ; "
    text += "python -c 'import sys; print(sys.version_info[:2])'; echo Be better > $HT_OUT/proposal.md"
    made = project(script(text) + "[sandbox]\nallow_unisolated = true\n")
    with caplog.at_level(logging.WARNING):
        candidate = made.propose()
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert candidate.hypothesis == "Be better"
    assert "NOT ISOLATED" in caplog.text and any("NOT ISOLATED" in text for text in made.heard.said("propose.progress"))
    assert CANARY not in made.transcript(candidate)
    assert running(mark) == []


@pytest.mark.usefixtures("no_jail")
def test_without_a_jail_limits_hold_and_what_left_its_session_ends_too(project: MakeProject) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    text = f"(setsid sh -c 'while :; do sleep 1; done; : {mark}' &) ; sleep 600"
    made = project(script(text, time_limit=1.0) + "[sandbox]\nallow_unisolated = true\n")
    candidate = made.propose()
    assert "longer than 1 seconds" in candidate.reason
    assert running(mark) == []


@pytest.mark.usefixtures("no_jail")
def test_a_bind_with_another_name_needs_a_jail(project: MakeProject, tmp_path: Path) -> None:
    made = project(script("true", binds=[f"{tmp_path}:/elsewhere"]) + "[sandbox]\nallow_unisolated = true\n")
    with pytest.raises(ConfigError, match="needs a jail"):
        made.propose()


def test_the_guide_names_every_option() -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/estimators.md").read_text()
    for options, until in ((AgentOptions, "## `llm`"), (LlmOptions, "## Your own"), (PatchesOptions, "## `agent`")):
        part = guide[: guide.index(until)].rpartition("\n## ")[2]
        for name in options.model_fields:
            assert f"`{name}`" in part or f"\n{name} = " in part, name


def test_the_guide_s_own_estimator_works(project: MakeProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/estimators.md").read_text()
    (tmp_path / "shorter_prompt.py").write_text(guide.partition("```python\n")[2].partition("```")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    made = project('[loop]\nestimator = "shorter_prompt:Shorter"\n')
    candidate = made.propose()
    assert candidate.hypothesis == "A shorter prompt leaves more room for the task"
    memo = propose.diagnose(made.context, propose.DiagnoseSpec(base=made.base, outcome="nothing changed"))
    assert memo.author == "shorter" and "- nothing changed" in memo.text
