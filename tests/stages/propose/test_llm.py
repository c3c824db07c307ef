"""The llm estimator, end to end: a scripted model behind the product's own HTTP front writes edits and the memo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from harnesstrain.core.errors import ConfigError, Incomplete, Prerequisite
from harnesstrain.core.records.candidate import CandidateStatus
from harnesstrain.llm.front import Front
from harnesstrain.llm.scripted import ScriptedModel, Settings
from harnesstrain.stages import propose
from tests.stages.propose.conftest import MakeProject

KEY = "sk-key-5d1e88aa"
SEARCH = "FILE: {path}\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
GOOD = "HYPOTHESIS: greet twice\nPREDICTED: t1, t2\n" + SEARCH.format(path="prompts/system.md", old="Hi.", new="Hi hi.")
PROSE = "I would make the prompt clearer."
TWICE = GOOD + SEARCH.format(path="agent/main.py", old="print(7)", new="print(8)")
OUTSIDE = SEARCH.format(path="program.md", old="Keep it simple.", new="Do as you like.")
ESCAPE = SEARCH.format(path="../../../out.txt", old="", new="x")


class Asked(ScriptedModel):
    """A scripted model that remembers what it was asked."""

    def __init__(self, rules: Sequence[Any], settings: Settings | None = None) -> None:
        super().__init__(rules, settings)
        self.requests: list[Any] = []

    def complete_until(self, request: Any, stop: Any) -> Any:
        self.requests.append(request)
        return super().complete_until(request, stop)


@contextmanager
def served(*replies: str, context: int = 8192) -> Iterator[tuple[Asked, str]]:
    """A model that gives each reply once, in order, then the last one again; and its URL."""
    rules = [{"times": 1, "reply": reply} for reply in replies[:-1]] + [{"reply": replies[-1]}]
    model = Asked(rules, Settings(context_length=context))
    with Front(model) as front:
        yield model, front.url
    model.close()


def toml(url: str, **more: object) -> str:
    lines = [f'url = "{url}"', *(f"{key} = {value!r}" for key, value in more.items())]
    return "\n".join(["[loop]", 'estimator = "llm"', "[estimator.llm]", *lines, ""]).replace("'", '"')


def test_a_good_reply_becomes_a_candidate(project: MakeProject) -> None:
    with served(GOOD) as (model, url):
        made = project(toml(url), environ={"MY_KEY": KEY})
        candidate = made.propose(epoch=1)
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert (candidate.hypothesis, candidate.predicted) == ("greet twice", ("t1", "t2"))
    assert made.file(candidate, "prompts/system.md") == "Hi hi.\n"
    assert (candidate.source, candidate.estimator) == ("scripted", "llm")
    asked = model.requests[0].messages[0]["content"]
    for part in ("Keep it simple.", "--- prompts/system.md\nHi.", "--- agent/main.py", "Nothing was tried yet."):
        assert part in asked
    assert "--- program.md" not in asked
    assert "greet twice" in made.transcript(candidate) and "Keep it simple." in made.transcript(candidate)
    assert candidate.usage.prompt > 100 and candidate.usage.completion > 10


@pytest.mark.parametrize(("bad", "told"), [
    (PROSE, "it holds no edit in the form FILE / SEARCH / REPLACE"),
    (TWICE, "does not stand in agent/main.py"),
    (OUTSIDE, "program.md is not one of the files you may change"),
    (ESCAPE, "../../../out.txt is not one of the files you may change"),
])  # fmt: skip
def test_a_reply_that_cannot_be_applied_is_answered_with_the_reason(project: MakeProject, bad: str, told: str) -> None:
    with served(bad, GOOD) as (model, url):
        made = project(toml(url))
        candidate = made.propose()
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert candidate.files == ("prompts/system.md",)
    assert len(model.requests) == 2
    messages = model.requests[1].messages
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert told in messages[2]["content"]


def test_a_model_that_never_writes_a_good_edit_gives_no_candidate(project: MakeProject) -> None:
    with served(OUTSIDE) as (model, url):
        made = project(toml(url, attempts=2))
        candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert candidate.reason == "no reply of 2 held a change that can be applied"
    assert len(model.requests) == 2
    assert candidate.usage.total > 0 and "Do as you like." in made.transcript(candidate)


def test_an_edit_that_changes_nothing_is_no_candidate(project: MakeProject) -> None:
    same = SEARCH.format(path="prompts/system.md", old="Hi.", new="Hi.")
    with served(same) as (_, url):
        made = project(toml(url))
        candidate = made.propose()
    assert candidate.status is CandidateStatus.NO_CANDIDATE


def test_the_next_proposal_sees_what_was_tried_and_another_seed(project: MakeProject) -> None:
    with served(GOOD) as (model, url):
        made = project(toml(url))
        made.propose()
        made.propose()
    first, second = model.requests
    assert "greet twice → **not judged**" in second.messages[0]["content"]
    assert first.sampling.seed != second.sampling.seed


def test_what_does_not_fit_the_context_is_left_out(project: MakeProject) -> None:
    with served(PROSE + " blah" * 300, GOOD, context=1000) as (model, url):
        made = project(toml(url, max_tokens=400), policy="A long rule. " * 400)
        candidate = made.propose()
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    first, second = model.requests
    assert "A long rule." not in first.messages[0]["content"] and "Tried so far" in first.messages[0]["content"]
    assert len(second.messages) == 1 and "An answer was refused.  That cannot" in second.messages[0]["content"]
    assert "blah" in made.transcript(candidate)


def test_a_surface_that_does_not_fit_the_context_is_a_failed_proposal(project: MakeProject) -> None:
    with served(GOOD, context=300) as (model, url):
        made = project(toml(url, max_tokens=150))
        candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert candidate.reason == "the files that may be changed do not fit the model's context of 300 tokens"
    assert model.requests == []


def test_a_model_that_cannot_be_reached_is_a_failed_proposal(project: MakeProject) -> None:
    made = project(toml("http://127.0.0.1:9/v1", model="m", deadline=1.0))
    candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert candidate.reason.startswith("the estimator's model failed: ")


def test_the_memo_is_the_model_s(project: MakeProject) -> None:
    with served("# Memo\n\nGreeting twice hurts.") as (model, url):
        made = project(toml(url))
        spec = propose.DiagnoseSpec(base=made.base, epoch=4, outcome="greet twice: rejected (lost t1)")
        memo = propose.diagnose(made.context, spec)
    assert (memo.text, memo.author, memo.epoch) == ("# Memo\n\nGreeting twice hurts.\n", "llm", 4)
    assert "greet twice: rejected (lost t1)" in model.requests[0].messages[0]["content"]
    assert memo.transcript is not None and memo.usage.total > 0


def test_an_empty_memo_is_made_of_facts(project: MakeProject) -> None:
    with served("  \n") as (_, url):
        made = project(toml(url))
        memo = propose.diagnose(made.context, propose.DiagnoseSpec(base=made.base, outcome="it was rejected"))
    assert memo.author == "harnesstrain" and "Last: it was rejected" in memo.text
    assert made.heard.said("warning") == ["the estimator wrote no memo: the model wrote an empty memo"]


def test_the_frozen_model_of_the_run_is_asked_when_no_url_is_given(project: MakeProject, tmp_path: Any) -> None:
    import json

    (tmp_path / "rules.jsonl").write_text(json.dumps({"reply": GOOD}) + "\n")
    made = project('[llm]\nengine = "scripted"\nscript = "../rules.jsonl"\n[loop]\nestimator = "llm"\n')
    candidate = made.propose()
    assert candidate.status is CandidateStatus.CANDIDATE, candidate.reason
    assert candidate.source == "scripted"


def test_keys_are_named_and_never_kept(project: MakeProject) -> None:
    with served(GOOD) as (_, url):
        made = project(toml(url, api_key_env="MY_KEY"))
        with pytest.raises(Prerequisite, match="MY_KEY is not set"):
            made.propose()
        given = project(toml(url, api_key_env="MY_KEY"), environ={"MY_KEY": KEY})
        candidate = given.propose()
    assert candidate.status is CandidateStatus.CANDIDATE
    assert KEY not in given.transcript(candidate) + candidate.model_dump_json() + repr(given.heard.events)


def test_stopping_asks_nothing_more(project: MakeProject) -> None:
    with served(PROSE) as (model, url):
        made = project(toml(url))
        made.heard.then["asking the model"] = made.stop.set
        with pytest.raises(Incomplete):
            made.propose()
    assert len(model.requests) == 1
    assert list(made.context.store.candidates()) == []


def test_wrong_options(project: MakeProject) -> None:
    made = project('[loop]\nestimator = "llm"\n[estimator.llm]\nattempts = 0\n')
    with pytest.raises(ConfigError, match="attempts should be greater than or equal to 1"):
        made.propose()
