"""The stage itself, with estimators of one's own: what becomes a candidate, what is recorded instead, the memo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import ConfigError, ProposalFailure
from harnesstrain.core.records.candidate import CandidateStatus, Proposal
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.stages import propose
from harnesstrain.stages.propose.base import Diagnosis, Evidence, Workshop
from tests.stages.propose.conftest import MakeProject

SPENT = Usage(prompt=100, completion=10)


class Custom:
    """Does what a function does."""

    name = "custom"

    def __init__(self, act: Callable[[Workshop], Proposal | None], memo: str = "mine") -> None:
        self._act = act
        self._memo = memo

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        return self._act(workshop)

    def diagnose(self, workshop: Workshop, evidence: Evidence, verdict: Verdict | None, outcome: str) -> Diagnosis:
        return Diagnosis(memo=self._memo, usage=SPENT, transcript="how I wrote it")


def writes(path: str, text: str, **claims: Any) -> Custom:
    def act(workshop: Workshop) -> Proposal:
        target = workshop.worktree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return Proposal(**{"hypothesis": "change it", **claims})

    return Custom(act)


def test_a_candidate_is_one_child_commit_with_trailers_and_a_ref(project: MakeProject) -> None:
    made = project("")
    claims = {"predicted": ("t1", "t2"), "source": "me", "usage": SPENT, "cost_usd": 0.5, "transcript": "how I did it"}
    candidate = made.propose(writes("agent/new.py", "x = 1\n", hypothesis="a line\nand more", **claims), epoch=7)
    assert candidate.status is CandidateStatus.CANDIDATE
    assert (candidate.hypothesis, candidate.predicted, candidate.epoch) == ("a line", ("t1", "t2"), 7)
    assert (candidate.usage, candidate.cost_usd, made.transcript(candidate)) == (SPENT, 0.5, "how I did it")
    assert candidate.files == ("agent/new.py",)
    repo: HarnessRepo = made.context.repo
    commit = candidate.commit or ""
    assert repo.parents(commit) == (made.base,) and repo.head() == made.base
    assert repo.refs() == {f"candidates/{candidate.id[:16]}": commit}
    raw = repo._git.run("cat-file", "commit", commit).decode()
    assert raw.endswith(f"a line\n\nand more\n\nBase: {made.base}\nEpoch: 7\nEstimator: custom\nPredicted: t1, t2\n")
    finished = [event for event in made.heard.events if event.kind == "propose.finished"]
    assert [event.data["status"] for event in finished] == ["candidate"]


def test_files_the_estimator_may_not_see_stay_as_they_are(project: MakeProject, tmp_path: Path) -> None:
    made = project("", manifest='visible = ["agent/**", "prompts/**"]\n')
    seen: list[str] = []

    def act(workshop: Workshop) -> Proposal:
        seen.extend(path.name for path in workshop.worktree.rglob("*") if path.is_file())
        (workshop.worktree / "agent/main.py").write_text("print(2)\n")
        return Proposal(hypothesis="two")

    candidate = made.propose(Custom(act))
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert sorted(seen) == ["main.py", "system.md"]
    assert candidate.files == ("agent/main.py",)
    assert made.file(candidate, "program.md") == "Keep it simple.\n"


def test_a_change_whose_tests_fail_is_refused_with_their_last_words(project: MakeProject) -> None:
    made = project("", tiny=False)
    candidate = made.propose(writes("agent/parsing.py", "raise RuntimeError('broken on purpose')\n"))
    assert candidate.status is CandidateStatus.INVALID
    assert candidate.reason.startswith("its tests fail: ") and "broken on purpose" in candidate.reason
    assert candidate.files == ("agent/parsing.py",) and candidate.commit is None
    assert made.context.repo.refs() == {}


def test_a_failure_is_recorded_with_what_it_took(project: MakeProject) -> None:
    def act(workshop: Workshop) -> Proposal:
        raise ProposalFailure("it broke", source="me", transcript="words", usage=SPENT, hypothesis="an idea", other=1)

    made = project("")
    candidate = made.propose(Custom(act), epoch=1)
    assert (candidate.status, candidate.reason) == (CandidateStatus.INVALID, "it broke")
    assert (candidate.source, candidate.usage, candidate.hypothesis) == ("me", SPENT, "an idea")
    assert made.transcript(candidate) == "words"


def test_the_same_failure_twice_is_two_records(project: MakeProject) -> None:
    made = project("")
    nothing = Custom(lambda workshop: None)
    first, second = made.propose(nothing), made.propose(nothing)
    assert first.reason == second.reason == "the estimator has nothing to propose"
    assert first.id != second.id
    assert [one.id for one in made.context.store.candidates()] == [first.id, second.id]


@pytest.mark.parametrize("error", [ConfigError("wrong"), KeyError("a defect")])
def test_what_is_no_failed_proposal_is_not_recorded_as_one(project: MakeProject, error: Exception) -> None:
    def act(workshop: Workshop) -> Proposal:
        raise error

    made = project("")
    with pytest.raises(type(error)):
        made.propose(Custom(act))
    assert list(made.context.store.candidates()) == []
    assert not list(made.context.state.glob("worktrees/*"))


def test_an_estimator_can_be_named_by_its_module(project: MakeProject) -> None:
    made = project('[loop]\nestimator = "tests.stages.propose.test_propose_stage:Registered"\n')
    assert made.propose().status is CandidateStatus.CANDIDATE


class Registered:
    """An estimator as a plug-in brings it."""

    name = "registered"

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        (workshop.worktree / "prompts/system.md").write_text("Hello.\n")
        return Proposal(hypothesis="hello")


def test_a_memo_is_kept_with_its_transcript_and_bounded(project: MakeProject) -> None:
    made = project("")
    estimator = Custom(lambda workshop: None, memo="line\n" * 500)
    spec = propose.DiagnoseSpec(base=made.base, epoch=2, outcome="it was promoted")
    memo = propose.diagnose(made.context, spec, estimator)
    assert memo.text.count("\n") == propose.stage.MEMO_LINES  # type: ignore[attr-defined]
    assert (memo.author, memo.epoch, memo.usage) == ("custom", 2, SPENT)
    assert made.context.store.blob(memo.transcript or "") == b"how I wrote it"
    assert made.context.store.memo() == memo
    assert made.context.store.gc(grace=0).files == 0
    shown: list[str] = []
    made.propose(Reading(shown))
    assert shown == [memo.text]


class Reading:
    """Keeps the memo that it is shown."""

    name = "reading"

    def __init__(self, shown: list[str]) -> None:
        self._shown = shown

    def propose(self, workshop: Workshop, evidence: Evidence) -> Proposal | None:
        assert (evidence.directory / "memo.md").read_text() == evidence.memo
        self._shown.append(evidence.memo)
        return None


def test_the_estimators_of_the_python_api() -> None:
    from harnesstrain import trainer

    assert trainer.AgenticEstimator(backend=trainer.ClaudeBackend()).name == "agent"
    assert trainer.AgenticEstimator(trainer.CodexBackend(model="m")).name == "agent"
    assert trainer.CommandBackend("my-agent", "{prompt}").program == "my-agent"
    assert trainer.AgenticEstimator().name == "agent"


TASK_FILES = {
    "tasks/one/task.toml": "[task]\n",
    "tasks/one/instruction.md": "Do it.\n",
    "tasks/one/tests/test.sh": "grep 42 answer\n",
    "tasks/one/solution/solve.sh": "echo 42 > answer\n",
    "agent/task.toml.txt": "no task\n",
    "task.toml": "at the root: no task either\n",
}


def test_tasks_in_the_harness_repo_are_shown_to_nobody(project: MakeProject) -> None:
    made = project("", files=TASK_FILES)
    seen: list[str] = []

    def act(workshop: Workshop) -> Proposal:
        tree = workshop.worktree
        seen.extend(path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file())
        (tree / "agent/main.py").write_text("print(2)\n")
        return Proposal(hypothesis="two")

    candidate = made.propose(Custom(act))
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert candidate.files == ("agent/main.py",)
    assert made.file(candidate, "tasks/one/tests/test.sh") == "grep 42 answer\n"
    assert {"agent/task.toml.txt", "task.toml", "agent/main.py"} <= set(seen)
    assert not any(path.startswith("tasks") for path in seen)
    with made.context.repo.worktree(candidate.commit or "") as tree:
        assert not (tree / "tasks").exists() and (tree / "task.toml").exists()
    sly = made.propose(writes("tasks/one/tests/test.sh", "true\n"))
    assert sly.status is CandidateStatus.INVALID and "tasks/one/tests/test.sh" in sly.reason
