"""What a report says of the verifiers, from certificates alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.core.digests import digest
from harnesstrain.core.records.certificate import Certificate, Certified, Regraded
from harnesstrain.core.records.run import Run
from harnesstrain.stages.report import build
from harnesstrain.stages.report.summary import checks
from harnesstrain.store import Store
from tests.stages.test_report import FAILED, SOLVED, A, B, History


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / ".ht", create=True) as opened:
        yield opened


def certify(store: Store, run: Run, task: str, grading: Regraded | None, reason: str = "") -> None:
    """One certificate of a cell whose commands gave the same outputs again."""
    rollout = next(one for one in store.rollouts(run.id) if one.task == task)
    certificate = Certificate(
        id=digest([rollout.id, grading]),
        kind="env",
        run=run.id,
        regime=run.regime,
        task=task,
        task_digest=rollout.task_digest,
        seed=1,
        chain=rollout.chain_digest,
        result=Certified.FORKED if grading is Regraded.OTHER else Certified.EXACT,
        grading=grading,
        grading_reason=reason,
        gradings=int(grading in (Regraded.SAME, Regraded.OUTCOME, Regraded.OTHER)),
        reward=rollout.reward if grading is not None else None,
    )
    store.put_certificate(certificate)


def told(store: Store, word: str) -> tuple[str, str]:
    """Answer and reason of the one question with this word."""
    return next((one.answer, one.told) for one in checks(build(store)) if word in one.question)


def test_certificates_of_commands_alone_do_not_vouch_for_the_verifier(store: Store) -> None:
    history = History(store)
    base = history.run(A, {"t1": FAILED, "t2": SOLVED})
    for task in ("t1", "t2"):
        certify(store, base, task, None)
    assert told(store, "environments")[0] == "yes"
    assert told(store, "grading") == ("not known", "Not checked: no baseline cell was graded again.")


def test_grades_that_came_again_are_counted_on_both_sides(store: Store) -> None:
    history = History(store)
    base = history.run(A, {"t1": FAILED, "t2": SOLVED})
    cand = history.run(B, {"t1": SOLVED, "t2": SOLVED})
    history.judge(base, cand)
    certify(store, base, "t1", Regraded.SAME)
    certify(store, base, "t2", Regraded.SAME)
    answer, sentence = told(store, "grading")
    assert answer == "partly" and sentence.startswith("2 of 2 graded baseline cells and 0 of 1 gain came out the same")
    assert sentence.endswith("; 1 not graded again.")
    certify(store, cand, "t1", Regraded.SAME)
    assert told(store, "grading") == (
        "yes",
        "2 of 2 graded baseline cells and 1 of 1 gain came out the same when they were graded again.",
    )


def test_a_verifier_that_does_not_repeat_itself_is_named_and_its_environment_is_not_blamed(store: Store) -> None:
    base = History(store).run(A, {"t1": FAILED, "t2": SOLVED})
    certify(store, base, "t1", Regraded.OTHER, "the verifier gave 0, then 1")
    certify(store, base, "t2", Regraded.OUTCOME)
    assert told(store, "grading") == (
        "no",
        "1 of 2 graded baseline cells came out the same when they were graded again; not t1, which no verdict counts; "
        "1 with another reward.",
    )
    assert told(store, "environments") == (
        "yes",
        "2 of 2 baseline cells gave the same outputs when they were executed again.",
    )


def test_what_could_not_be_graded_again_is_not_known(store: Store) -> None:
    base = History(store).run(A, {"t1": FAILED, "t2": SOLVED})
    certify(store, base, "t1", Regraded.IMPOSSIBLE, "the verifier gave no grade: killed")
    answer, sentence = told(store, "grading")
    assert (answer, sentence) == ("not known", "Not checked: no baseline cell was graded again; 1 could not be.")
    certify(store, base, "t2", Regraded.SAME)
    answer, sentence = told(store, "grading")
    assert answer == "partly" and sentence.endswith("; 1 could not be graded again.")


def test_a_certificate_of_another_grade_does_not_vouch_for_this_one(store: Store) -> None:
    base = History(store).run(A, {"t2": SOLVED})
    certify(store, base, "t2", Regraded.SAME)
    (one,) = store.certificates()
    store.put_certificate(one.model_copy(update={"reward": 0.0, "id": digest("another")}))
    assert told(store, "grading")[0] == "not known"
