"""Where an episode happens: what is served, what is executed, what is kept, what is cut."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core.errors import SandboxFailure, VerifierFailure
from harnesstrain.core.records.rollout import Source
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.rollout import keeping
from harnesstrain.rollout.action import run_action, write_action
from harnesstrain.rollout.drift import Drifted
from harnesstrain.rollout.place import Place, compared
from harnesstrain.sandbox.local_session import LocalSession
from tests.rollout.walking import LONG, Kept, Walker, Watched

pytestmark = pytest.mark.local

LIVE, CACHE, SNAPSHOT = Source.LIVE, Source.CACHE, Source.SNAPSHOT
COUNT = "echo x >> log; wc -l < log"
"""Says how often it was executed."""


@pytest.fixture(scope="module")
def sandbox(local: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A local sandbox with a cache of its own, so that no earlier kept state is found."""
    with closing(Watched(tmp_path_factory.mktemp("cache"))) as made:
        yield made


@pytest.fixture
def walker(tmp_path: Path, sandbox: Watched) -> Walker:
    return Walker(tmp_path, sandbox)


@pytest.fixture
def keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No state can be kept."""
    monkeypatch.setattr(LocalSession, "seal", lambda *_: False)


def refuse(*args: object, **kwargs: object) -> LocalSession:
    raise SandboxFailure("no environment may be opened here")


def counts(n: int) -> list[str]:
    """n commands, each of which says its number."""
    return [f"{COUNT} # {number}" for number in range(n)]


def test_what_is_recorded_needs_no_environment(walker: Walker, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = ["echo hello; echo err >&2; exit 3", COUNT, "head -c 300 /dev/urandom", "touch done"]
    cold = walker.walk(commands, grade=True)
    assert set(cold.sources) == {LIVE}
    assert (cold.executions, cold.opened) == (4, 1)
    monkeypatch.setattr(Watched, "open", refuse)
    warm = walker.walk(commands, grade=True)
    assert warm.results == cold.results  # raw, durations included
    assert set(warm.sources) == {CACHE}
    assert (warm.executions, warm.opened) == (0, 0)
    assert warm.graded == cold.graded
    assert (cold.grade_cached, warm.grade_cached) == (False, True)


def test_a_divergence_executes_what_it_must_and_nothing_twice(walker: Walker) -> None:
    walker.walk(counts(6))
    other = walker.walk([*counts(4), COUNT, COUNT])
    assert [one.stdout for one in other.results if one] == [b"%d\n" % n for n in range(1, 7)]
    assert other.sources == (*[CACHE] * 4, SNAPSHOT, SNAPSHOT)
    assert (other.executions, other.opened) == (5, 1)  # kept after the first: three again, two new
    again = walker.walk([*counts(4), COUNT, COUNT])
    assert (again.executions, again.sources) == (0, (CACHE,) * 6)


def test_a_divergence_starts_from_the_deepest_kept_state(walker: Walker) -> None:
    walker.walk(counts(21))
    other = walker.walk([*counts(19), "cat log | wc -l"])
    assert other.results[-1] is not None
    assert other.results[-1].stdout == b"19\n"
    assert other.sources == (*[CACHE] * 19, SNAPSHOT)
    assert other.executions == 18 - 2 * keeping.KEEP_ACTIONS + 1
    thorough = walker.walk([*counts(19), "cat log | wc  -l"], thorough=True)
    assert thorough.executions == 20
    assert (thorough.sources[-1], thorough.started_at) == (LIVE, (None,))


def test_a_state_that_was_reached_by_executing_again_is_kept(walker: Walker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalSession, "seal", lambda *_: False)
    walker.walk(counts(20))
    monkeypatch.undo()
    assert walker.walk([*counts(20), "echo one"]).executions == 21
    assert walker.walk([*counts(20), "echo two"]).executions == 1


def test_a_kept_state_that_is_gone_is_no_loss(walker: Walker, monkeypatch: pytest.MonkeyPatch) -> None:
    walker.walk(counts(10))
    start = Watched.open

    def gone(
        self: Watched, environment: Environment, *, limits: Limits | None = None, at: str | None = None
    ) -> LocalSession:
        if at is not None:
            raise SandboxFailure("gone")
        return start(self, environment, limits=limits)

    monkeypatch.setattr(Watched, "open", gone)
    other = walker.walk([*counts(10), "echo new"])
    assert (other.executions, other.sources[-1]) == (11, LIVE)


def test_half_a_cache_serves_what_it_has(walker: Walker) -> None:
    commands = counts(8)
    cold = walker.walk(commands, grade=True)
    del walker.steps[list(walker.steps)[3]]  # the third command; the first entry names the working directory
    mixed = walker.walk(commands, grade=True)
    assert mixed.said == cold.said
    assert mixed.sources == (CACHE, CACHE, SNAPSHOT, *[CACHE] * 5)
    assert mixed.executions == 2  # the second again; nothing after it: the grade was on record
    walker.grades.clear()
    del walker.steps[list(walker.steps)[1]]  # the first one
    graded = walker.walk(commands, grade=True)
    assert graded.said == cold.said
    assert graded.executions == 8  # the first now, the others before the grade


def test_once_live_nothing_is_executed_twice(walker: Walker) -> None:
    cold = walker.walk(counts(40), grade=True)
    assert (cold.executions, cold.opened) == (40, 1)


def test_a_sandbox_that_neither_forks_nor_keeps_states(walker: Walker, monkeypatch: pytest.MonkeyPatch) -> None:
    can = walker.sandbox.capabilities().model_copy(update={"forks": False, "snapshots": False})
    monkeypatch.setattr(Watched, "capabilities", lambda _: can)
    cold = walker.walk([*counts(9), "true"], grade=True)
    other = walker.walk([*counts(9), "touch done"], grade=True)
    assert (other.executions, other.opened, other.sources[-1]) == (10, 1, LIVE)
    rewards = [one.graded.grade.reward for one in (cold, other) if one.graded and one.graded.grade]
    assert rewards == [0.0, 1.0]
    assert walker.walk([*counts(9), "touch done"], grade=True).executions == 0
    walker.grades.clear()
    again = walker.walk([*counts(9), "touch done"], grade=True)
    assert (again.executions, again.graded is not None) == (10, True)


@pytest.mark.parametrize(
    "early", [["echo $RANDOM$RANDOM$RANDOM"], ["true", "head -c 9 /dev/urandom | od -An -tx1 > noise; cat noise", "ls"]]
)
def test_drift_is_found_and_shown(walker: Walker, early: list[str]) -> None:
    walker.walk([*early, "echo a"])
    with pytest.raises(Drifted) as caught:
        walker.walk([*early, "echo b"], thorough=True)
    drift = caught.value.drift
    assert drift.command == early[drift.step]
    assert drift.step == len(early) // 2
    assert drift.recorded != drift.observed
    assert drift.recorded.startswith("exit 0")


def test_a_kept_state_spares_what_does_not_repeat(walker: Walker) -> None:
    """The state is the very one that printed what was recorded."""
    commands = ["echo $RANDOM$RANDOM > n; cat n", *counts(9)]
    cold = walker.walk(commands)
    other = walker.walk([*commands, "cat n"])
    assert other.results[-1] is not None
    assert cold.results[0] is not None
    assert other.results[-1].stdout == cold.results[0].stdout
    with pytest.raises(Drifted):
        walker.walk([*commands, "cat  n"], thorough=True)


def test_some_rollouts_compare_a_kept_state_with_executing_everything(walker: Walker) -> None:
    ids = [f"{number:064x}" for number in range(2000)]
    chosen = [one for one in ids if compared(one)]
    assert 20 <= len(chosen) <= 65
    assert chosen == [one for one in ids if compared(one)]
    walker.walk(counts(10))
    other = walker.walk([*counts(10), "echo new"], rollout=chosen[0])
    assert (other.executions, other.sources[-1]) == (11, LIVE)
    assert None in other.started_at  # from the base
    assert len(other.started_at) == 2  # the kept state beside it, to be compared


def test_a_kept_state_with_other_files_is_found_out(walker: Walker, monkeypatch: pytest.MonkeyPatch) -> None:
    walker.walk(counts(10))
    chosen = next(one for one in (f"{number:064x}" for number in range(2000)) if compared(one))
    truth = LocalSession.state
    said = iter(["e" * 64])
    monkeypatch.setattr(LocalSession, "state", lambda session: next(said, None) or truth(session))
    with pytest.raises(Drifted) as caught:
        walker.walk([*counts(10), "echo new"], rollout=chosen)
    assert "e" * 64 in caught.value.drift.recorded


def test_a_command_that_times_out_is_served_and_times_out_again(walker: Walker) -> None:
    cold = walker.walk(["echo begun; sleep 30"], timeout=0.3)
    assert cold.results[0] is not None
    assert cold.results[0].timed_out
    assert walker.walk(["echo begun; sleep 30"], timeout=0.3).executions == 0
    other = walker.walk(["echo begun; sleep 30", "echo on"], timeout=0.3)
    assert other.said[1] == (0, b"on\n", b"")
    assert other.executions == 2


def test_no_kept_state_covers_a_living_process(walker: Walker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "KEEP_ACTIONS", 1)
    serve = "(while :; do sleep 0.05; done) > /dev/null 2>&1 & echo $! > pid"
    alive = "kill -0 $(cat pid) && echo alive"
    walker.walk(["echo a > a", serve, "echo b > b"])
    other = walker.walk(["echo a > a", serve, "echo b > b", alive])
    assert other.said[-1] == (0, b"alive\n", b"")
    assert other.executions == 3  # the server again, what followed, the new one
    ended = "kill $(cat pid); while kill -0 $(cat pid) 2> /dev/null; do :; done; sleep 0.3; echo ended"
    first = walker.walk(["echo a > a", serve, ended, "ls"])
    assert first.said[2] == (0, b"ended\n", b"")
    assert walker.walk(["echo a > a", serve, ended, "ls", "cat a"]).executions == 1  # nothing lives: kept again


@pytest.mark.usefixtures("keeps_nothing")
def test_an_action_is_cut_alike_whether_it_runs_or_is_on_record(walker: Walker) -> None:
    commands = ["echo a > a", "sleep 0.6; echo done"]
    cut = walker.walk(commands, remaining=0.2)
    assert (cut.results[0] is not None, cut.results[1]) == (True, None)
    assert cut.sources == (LIVE, LIVE)
    again = walker.walk(commands, remaining=0.2)
    assert again.said == cut.said
    assert (again.sources, again.executions) == ((CACHE, CACHE), 0)
    whole = walker.walk(commands)
    assert whole.sources == (CACHE, LIVE)
    known = walker.walk(commands, remaining=0.3)
    assert known.said == cut.said
    assert (known.sources, known.executions) == ((CACHE, CACHE), 0)
    assert walker.walk(commands, remaining=0.0).results == (None, None)


def test_a_cut_action_leaves_no_trace_in_what_is_graded(walker: Walker) -> None:
    commands = ["echo a > a", "touch done; sleep 5"]
    cut = walker.walk(commands, remaining=0.2, grade=True)
    assert cut.graded is not None
    assert cut.graded.grade is not None
    assert cut.graded.grade.reward == 0.0
    again = walker.walk(commands, remaining=0.2, grade=True)
    assert (again.executions, again.graded, again.grade_cached) == (0, cut.graded, True)


@pytest.mark.usefixtures("keeps_nothing")
def test_a_broken_entry_is_a_miss(walker: Walker) -> None:
    class Forgetful(Kept):
        def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
            return None if list(self).index(key) == 2 else super().get(key, default)

    commands = counts(3)
    cold = walker.walk(commands)
    kept = Forgetful(walker.steps)
    mixed = walker.walk(commands, bench=walker.bench(step_cache=kept))
    assert mixed.said == cold.said
    assert mixed.sources == (CACHE, LIVE, CACHE)


@pytest.mark.usefixtures("keeps_nothing")
def test_an_entry_of_other_scrub_rules_is_scrubbed_again(walker: Walker) -> None:
    walker.walk(counts(2))
    for key in list(walker.steps)[1:]:
        walker.steps[key] = walker.steps[key].model_copy(update={"rules": "older", "scrubbed": "0" * 64})
    place = Place(walker.cell(), walker.bench())
    with closing(place):
        done = place.act(0, run_action(counts(1)[0], None, None, None), LONG)
    assert done.entry is not None
    assert done.entry.scrubbed != "0" * 64
    assert walker.walk([*counts(2), "echo new"]).executions == 3  # no drift


def test_equal_actions_under_way_are_executed_once(walker: Walker) -> None:
    bench = walker.bench()
    barrier = threading.Barrier(3)

    def one(_: int) -> int:
        place = Place(walker.cell(), bench)
        with closing(place):
            barrier.wait(20)
            place.act(0, run_action("sleep 0.3; echo once", None, None, None), LONG)
            executed = place.executions
            barrier.wait(20)
            place.grade()
            return executed

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(one, range(3))) == [0, 0, 1]
    assert len(walker.grades) == 1


def test_who_waits_for_an_attempt_that_fails_makes_its_own(walker: Walker, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = walker.bench()
    begun = threading.Event()
    run, calls = LocalSession.run, iter([True])

    def flaky(self: LocalSession, command: str, **more: object) -> object:
        if "once" in command and next(calls, False):
            begun.set()
            threading.Event().wait(0.3)
            raise SandboxFailure("the first one breaks")
        return run(self, command, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalSession, "run", flaky)

    def one() -> bytes:
        place = Place(walker.cell(), bench)
        with closing(place):
            done = place.act(0, run_action("echo once", None, None, None), LONG)
            assert done.entry is not None
            return done.entry.result.stdout

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(one)
        assert begun.wait(20)
        second = pool.submit(one)
        with pytest.raises(SandboxFailure, match="breaks"):
            first.result()
        assert second.result() == b"once\n"


def test_a_state_that_cannot_be_graded_is_remembered_and_a_verifier_without_a_grade_is_not(walker: Walker) -> None:
    broken = walker.walk(["rm -rf /logs; touch /logs"], grade=True)
    again = walker.walk(["rm -rf /logs; touch /logs"], grade=True)
    assert broken.graded is not None
    assert "cannot be graded" in broken.graded.ungradable
    assert (again.graded, again.grade_cached, again.executions) == (broken.graded, True, 0)
    walker.task.verifier.tests.joinpath("test.sh").write_text("exit 3")
    for _ in range(2):
        with pytest.raises(VerifierFailure):
            walker.walk(["echo other"], grade=True)
    assert len(walker.grades) == 1


def test_file_errors_are_served_as_they_were(walker: Walker) -> None:
    def one() -> list[object]:
        place = Place(walker.cell(), walker.bench())
        with closing(place):
            done = place.act(0, write_action("/proc/version/x", b"1", 0o644), LONG)
            assert done.entry is not None
            return [done.entry.errno, done.entry.message, done.entry.result]

    assert one() == one()
    assert one()[0] == "EEXIST"


@pytest.mark.usefixtures("keeps_nothing")
@pytest.mark.parametrize(("read", "write"), [(True, False), (False, True), (False, False)])
def test_caches_that_are_only_read_or_only_written(walker: Walker, read: bool, write: bool) -> None:
    walker.walk(counts(2))
    size = len(walker.steps)
    bench = walker.bench(cache_read=read, cache_write=write)
    done = walker.walk([*counts(2), "echo new"], bench=bench)
    assert done.sources == ((CACHE, CACHE, LIVE) if read else (LIVE,) * 3)
    assert len(walker.steps) == size + int(write)
    assert done.started_at == (None,)


def test_an_environment_without_a_digest_is_not_remembered(walker: Walker) -> None:
    walker.task = walker.task.model_copy(update={"environment": Environment(workdir="/app")})
    assert walker.walk(["echo a"], grade=True).executions == walker.walk(["echo a"], grade=True).executions == 1
    assert not walker.steps
    assert not walker.grades


@pytest.mark.usefixtures("keeps_nothing")
def test_preparing_opens_the_environment_in_the_state_reached(walker: Walker) -> None:
    walker.walk(counts(5))
    place = Place(walker.cell(), walker.bench())

    def act(index: int, command: str) -> bytes:
        done = place.act(index, run_action(command, None, None, None), LONG)
        assert done.entry is not None
        return done.entry.result.stdout

    with closing(place):
        for index in range(3):
            act(index, counts(3)[index])
        assert place.untouched
        place.prepare()
        place.prepare()
        assert place._opening is not None
        place._opening.result(20)
        assert place.executions == 3
        act(3, counts(5)[3])
        place.prepare()
        assert place.executions == 3  # what is served after that waits until it is needed
        assert act(4, COUNT) == b"5\n"
        assert place.executions == 5


def test_what_fails_in_the_background_matters_when_it_is_needed(
    walker: Walker, monkeypatch: pytest.MonkeyPatch
) -> None:
    walker.walk(counts(2), grade=True)
    monkeypatch.setattr(Watched, "open", refuse)
    place = Place(walker.cell(), walker.bench())
    with closing(place):
        place.prepare()
        for index, command in enumerate(counts(2)):
            place.act(index, run_action(command, None, None, None), LONG)
        assert place.grade().cached
    place = Place(walker.cell(), walker.bench())
    with closing(place):
        place.prepare()
        with pytest.raises(SandboxFailure, match="no environment"):
            place.act(0, run_action("echo new", None, None, None), LONG)
