"""Which cells of a run are missing."""

from __future__ import annotations

from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.judge.early import Cell
from harnesstrain.measure.plan import plan


def rollout(task: str, seed: int, outcome: Outcome, attempt: int = 1) -> Rollout:
    return Rollout(
        id=f"{task}{seed}{attempt}", run="r", task=task, task_digest="d", seed=seed, outcome=outcome, attempt=attempt
    )


def names(found: object) -> list[tuple[str, int, int]]:
    return [(wanted.task, wanted.seed, wanted.attempt) for wanted in found.missing]  # type: ignore[attr-defined]


def test_everything_is_missing_at_first_in_panel_order_seed_by_seed() -> None:
    todo = plan(["b", "a"], [1, 2], [], retries=1)
    assert names(todo) == [("b", 1, 1), ("a", 1, 1), ("b", 2, 1), ("a", 2, 1)]
    assert (todo.cells, todo.done) == (4, 0)


def test_an_order_comes_first_and_the_rest_follows() -> None:
    order = [Cell(task="c", seed=1), Cell(task="gone", seed=1), Cell(task="a", seed=2)]
    todo = plan(["a", "b", "c"], [1, 2], [rollout("b", 1, Outcome.SOLVED)], retries=1, order=order)
    assert names(todo) == [("c", 1, 1), ("a", 2, 1), ("a", 1, 1), ("b", 2, 1), ("c", 2, 1)]


def test_scorable_cells_are_done_whatever_their_outcome() -> None:
    ended = [outcome for outcome in Outcome if outcome.scorable]
    tasks = [outcome.value for outcome in ended]
    todo = plan(tasks, [1], [rollout(o.value, 1, o) for o in ended], retries=1)
    assert todo.missing == ()
    assert todo.done == len(ended)


def test_infrastructure_failures_are_tried_again_until_the_attempts_are_used_up() -> None:
    first = rollout("a", 1, Outcome.INFRA_LLM)
    second = rollout("a", 1, Outcome.INFRA_SANDBOX, attempt=2)
    assert names(plan(["a"], [1], [first], retries=1)) == [("a", 1, 2)]
    assert names(plan(["a"], [1], [first, second], retries=1)) == []
    assert names(plan(["a"], [1], [first], retries=0)) == []


def test_retry_infra_gives_one_attempt_more() -> None:
    used = [rollout("a", 1, Outcome.INFRA_LLM), rollout("a", 1, Outcome.INFRA_LLM, attempt=2)]
    assert names(plan(["a"], [1], used, retries=1, retry_infra=True)) == [("a", 1, 3)]
    solved = [*used, rollout("a", 1, Outcome.SOLVED, attempt=3)]
    assert names(plan(["a"], [1], solved, retries=1, retry_infra=True)) == []


def test_a_drift_has_one_attempt_more_whatever_the_retries() -> None:
    first = rollout("a", 1, Outcome.FORKED)
    second = rollout("a", 1, Outcome.FORKED, attempt=2)
    failed = rollout("a", 1, Outcome.INFRA_LLM, attempt=2)
    todo = plan(["a"], [1], [first], retries=0)
    assert names(todo) == [("a", 1, 2)]
    assert todo.missing[0].thorough
    assert names(plan(["a"], [1], [first, second], retries=5)) == []
    assert names(plan(["a"], [1], [first, failed], retries=0)) == []
    assert names(plan(["a"], [1], [first, failed], retries=1)) == [("a", 1, 3)]
    assert plan(["a"], [1], [first, failed], retries=1).missing[0].thorough


def test_the_longest_come_first_and_the_unknown_before_them() -> None:
    found = plan(["short", "long", "new", "middle"], [1, 2], [], retries=0, spans={"short": 1, "long": 9, "middle": 5})
    assert [wanted.task for wanted in found.missing] == ["new", "long", "middle", "short"] * 2
    assert [wanted.seed for wanted in found.missing] == [1] * 4 + [2] * 4


def test_equally_long_ones_keep_the_panels_order() -> None:
    found = plan(["b", "a", "c"], [1], [], retries=0, spans={"a": 2, "b": 2, "c": 2})
    assert [wanted.task for wanted in found.missing] == ["b", "a", "c"]


def test_an_order_that_was_asked_for_is_kept() -> None:
    order = [Cell(task="short", seed=1)]
    found = plan(["long", "short"], [1], [], retries=0, order=order, spans={"short": 1, "long": 9})
    assert [wanted.task for wanted in found.missing] == ["short", "long"]
