"""Who takes which request: sticky where it pays, never starving, never holding a request back from an idle worker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.records.llm import Sampling
from harnesstrain.llm.embedded.chatml import Prompt
from harnesstrain.llm.embedded.jobs import Job
from harnesstrain.llm.embedded.routing import BLOCK, Desk, Ticket, chain, shared

KEYS = iter(range(1, 10**9))


def ticket(text: str, reply: int = 10) -> Ticket:
    return Ticket(Job(key=next(KEYS), prompt=Prompt(turns=(text,)), sampling=Sampling(max_tokens=reply)))


def run(desk: Desk, number: int, text: str) -> None:
    """Let a worker complete a request."""
    desk.add(ticket(text))
    assert desk.take(number) is not None
    desk.finish(number, ())


@given(st.text(), st.text(), st.text())
def test_chains_share_whole_blocks_of_the_common_prefix(prefix, one, other):
    prefix *= 40
    common = shared(chain(prefix + one), chain(prefix + other))
    assert common % BLOCK == 0
    assert common >= len(prefix) // BLOCK * BLOCK
    assert (prefix + one)[:common] == (prefix + other)[:common]


def test_a_conversation_returns_to_its_worker():
    desk = Desk(2)
    first, second = "a" * 2000, "b" * 2000
    desk.reset(0)
    desk.reset(1)
    run(desk, 0, first)
    desk.add(ticket(second))
    assert desk.take(1) is None, "a new conversation goes to the first idle worker among equals"
    assert desk.take(0) is not None
    desk.finish(0, ())
    run(desk, 0, first + "more")
    desk.add(ticket(first + "more and more"))
    assert desk.take(1) is None
    assert desk.take(0) is not None


def test_a_short_wait_is_better_than_a_cold_start_and_a_long_one_is_not():
    desk = Desk(2)
    run(desk, 0, "a" * 20_000)
    desk.add(ticket("b" * 300))
    assert desk.take(0) is not None
    desk.add(ticket("a" * 20_100))
    assert desk.take(1) is None, "20,000 characters would be evaluated again to avoid waiting for 400"
    for number in range(80):
        desk.add(ticket("a" * 20_000 + f"{number}" * 600))
    assert desk.take(1) is not None, "the queue for worker 0 is longer than evaluating the prompt again"


def test_requests_that_share_only_a_system_message_are_spread():
    desk = Desk(2)
    run(desk, 0, "s" * 600)
    for subject in "xy":
        desk.add(ticket("s" * 600 + subject * 3000, reply=100))
    assert desk.take(0) is not None
    assert desk.take(1) is not None


def test_an_unstarted_worker_is_left_alone_while_a_started_one_is_idle():
    desk = Desk(3)
    desk.reset(1)
    desk.add(ticket("hello"))
    assert desk.take(0) is None and desk.take(2) is None
    assert desk.take(1) is not None


def test_given_up_prefixes_and_new_processes_are_forgotten():
    desk = Desk(1)
    kept = ticket("a" * 1000)
    desk.add(kept)
    desk.take(0)
    desk.finish(0, ())
    again = ticket("a" * 1000)
    assert desk.seats[0].reach(again) > 0
    desk.add(ticket("b"))
    desk.take(0)
    desk.finish(0, (kept.job.key,))
    assert desk.seats[0].reach(again) == 0
    run(desk, 0, "a" * 1000)
    desk.reset(0)
    assert desk.seats[0].reach(again) == 0


def test_a_waiting_request_can_be_withdrawn_once():
    desk = Desk(1)
    one = ticket("x")
    desk.add(one)
    assert desk.withdraw(one) and not desk.withdraw(one)
    assert desk.take(0) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), max_size=30), st.integers(1, 4), st.randoms())
def test_every_request_is_run_exactly_once(requests, workers, random):
    """Whatever arrives and whoever asks first: while any worker is idle and any request waits, somebody takes one."""
    desk = Desk(workers)
    waiting = [ticket(letter * (size * 100 + 1)) for letter, size in requests]
    done: list[Ticket] = []
    for one in waiting:
        desk.add(one)
    running: dict[int, Ticket] = {}
    while len(done) < len(waiting):
        numbers = list(range(workers))
        random.shuffle(numbers)
        for number in numbers:
            if number not in running and (taken := desk.take(number)):
                running[number] = taken
        assert running, "requests wait and nobody takes one"
        number = random.choice(sorted(running))
        done.append(running.pop(number))
        desk.finish(number, ())
    assert {one.job.key for one in done} == {one.job.key for one in waiting}
    assert len(done) == len(waiting)
