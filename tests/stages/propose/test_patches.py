"""The patch queue: order, headers, each once, what does not apply, the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.candidate import CandidateStatus
from harnesstrain.stages import propose
from tests.stages.propose.conftest import MakeProject
from tests.stages.propose.making import Project

TOML = '[loop]\nestimator = "patches"\n[estimator.patches]\ndir = "queue"\n'


def patch(before: str, after: str, *, path: str = "prompts/system.md", head: str = "") -> str:
    """A patch of one line."""
    return f"{head}--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{before}\n+{after}\n"


def queue(made: Project, **patches: str) -> Path:
    """Write the queue; names are sorted as they would be in a directory."""
    folder = made.root / "queue"
    folder.mkdir(exist_ok=True)
    for name, text in patches.items():
        (folder / f"{name}.patch").write_text(text)
    return folder


def test_patches_are_tried_in_order_and_once(project: MakeProject) -> None:
    made = project(TOML)
    folder = queue(made, b2=patch("Hi.", "Two."), a1=patch("Hi.", "One."))
    (folder / "c3.diff").write_text(patch("Hi.", "Three."))
    (folder / "notes.txt").write_text("no patch\n")
    candidates = [made.propose() for _ in range(4)]
    assert [made.file(one, "prompts/system.md") for one in candidates[:3]] == ["One.\n", "Two.\n", "Three.\n"]
    assert [one.hypothesis for one in candidates[:3]] == ["a1", "b2", "c3"]
    assert [one.source.partition("@")[0] for one in candidates[:3]] == ["a1.patch", "b2.patch", "c3.diff"]
    assert {one.base for one in candidates} == {made.base}
    assert candidates[3].status is CandidateStatus.NO_CANDIDATE
    assert candidates[3].reason == "the estimator has nothing to propose"


def test_headers_give_the_hypothesis_and_the_predicted_flips(project: MakeProject) -> None:
    made = project(TOML)
    head = "From: A <a@b>\nSubject: [PATCH 1/2] Greet the\n model twice\nPredicted: t1, t2,\n\nMore words.\n---\n"
    queue(made, a=patch("Hi.", "Hi hi.", head=head))
    candidate = made.propose(epoch=2)
    assert (candidate.hypothesis, candidate.predicted) == ("Greet the model twice", ("t1", "t2"))
    message = made.context.repo.version(candidate.commit or "").subject
    assert message == "Greet the model twice"


def test_a_patch_that_does_not_apply_is_recorded_and_the_next_one_is_tried(project: MakeProject) -> None:
    made = project(TOML)
    queue(made, a=patch("Ho.", "One.", head="Subject: never fits\n\n"), b=patch("Hi.", "Two."))
    refused, candidate, nothing = made.propose(), made.propose(), made.propose()
    assert refused.status is CandidateStatus.INVALID
    assert "a.patch does not apply" in refused.reason and made.base[:8] in refused.reason
    assert (refused.hypothesis, refused.source.partition("@")[0]) == ("never fits", "a.patch")
    assert candidate.status is CandidateStatus.CANDIDATE and candidate.hypothesis == "b"
    assert nothing.status is CandidateStatus.NO_CANDIDATE


def test_a_patch_that_was_edited_is_tried_again(project: MakeProject) -> None:
    made = project(TOML)
    queue(made, a=patch("Ho.", "One."))
    assert made.propose().status is CandidateStatus.INVALID
    queue(made, a=patch("Hi.", "One."))
    assert made.propose().status is CandidateStatus.CANDIDATE


def test_a_patch_outside_the_surface_is_refused(project: MakeProject) -> None:
    made = project(TOML)
    queue(made, a=patch("Keep it simple.", "Do as you like.", path="program.md"))
    candidate = made.propose()
    assert candidate.status is CandidateStatus.INVALID
    assert "program.md" in candidate.reason and candidate.source.startswith("a.patch@")
    assert made.propose().status is CandidateStatus.NO_CANDIDATE


def test_a_patch_cannot_leave_the_worktree(project: MakeProject, tmp_path: Path) -> None:
    made = project(TOML)
    (tmp_path / "out.txt").write_text("mine\n")
    queue(made, a=patch("mine", "theirs", path="../../../../out.txt"))
    assert made.propose().status is CandidateStatus.INVALID
    assert (tmp_path / "out.txt").read_text() == "mine\n"


@pytest.mark.parametrize(("table", "why"), [
    ('dir = "nowhere"', "no patch directory at "),
    ("", "needs the key 'dir'"),
    ('dri = "x"', "needs the key 'dir'"),
    ('dir = "queue"\nmore = 1', "no key 'more'"),
])  # fmt: skip
def test_wrong_options(project: MakeProject, table: str, why: str) -> None:
    made = project(f'[loop]\nestimator = "patches"\n[estimator.patches]\n{table}\n')
    queue(made)
    with pytest.raises(ConfigError, match=why):
        made.propose()
    assert list(made.context.store.candidates()) == []


def test_the_memo_is_made_of_facts(project: MakeProject) -> None:
    made = project(TOML)
    queue(made, a=patch("Hi.", "One.", head="Subject: say one\n\n"))
    made.propose(epoch=1)
    memo = propose.diagnose(made.context, propose.DiagnoseSpec(base=made.base, epoch=1, outcome="say one: rejected"))
    assert memo.author == "patches"
    assert "Last: say one: rejected" in memo.text and "- epoch 1: say one → **not judged**" in memo.text
    assert "The baseline was not measured yet." in memo.text


def test_what_is_no_file_is_recorded_and_the_next_patch_is_tried(project: MakeProject) -> None:
    made = project(TOML)
    folder = queue(made, d=patch("Hi.", "Two."))
    (folder / "a.patch").mkdir()
    (folder / "b.patch").symlink_to("nowhere")
    os.mkfifo(folder / "c.patch")
    refused = [made.propose() for _ in range(3)]
    assert {one.status for one in refused} == {CandidateStatus.INVALID}
    assert [one.reason for one in refused] == [
        f"{name} cannot be read: {why}; mend it or take it out of the queue"
        for name, why in {
            "a.patch": "it is a directory",
            "b.patch": "No such file or directory",
            "c.patch": "it is no file",
        }.items()
    ]
    assert made.propose().hypothesis == "d"
    (folder / "a.patch").rmdir()
    queue(made, a=patch("Hi.", "One."))
    assert made.propose().hypothesis == "a"


def test_a_patch_whose_name_is_no_text(project: MakeProject) -> None:
    made = project(TOML)
    folder = queue(made, a=patch("Hi.", "One."))
    (folder / "a.patch").rename(os.fsdecode(os.fsencode(folder) + b"/a\xff.patch"))
    assert made.propose().hypothesis == "a\ufffd"
    assert made.propose().status is CandidateStatus.NO_CANDIDATE
