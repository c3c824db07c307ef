"""A model that refuses anything, and rules that are broken: never the harness's loss."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest

from tests.cli.conftest import parsed
from tests.llm.badserver import BadServer, bad_server, says
from tests.project import Project, Ran

pytestmark = pytest.mark.local
Make = Callable[..., Project]
OK = says({"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]})


def live(server: BadServer) -> list[str]:
    """Options that measure on `server`, with nothing from a cache."""
    return [
        option
        for setting in ("llm.engine=external", f"llm.url={server.url}", "measure.cache=off")
        for option in ("--set", setting)
    ]


@pytest.mark.parametrize("status", [401, 404])
def test_a_refusing_endpoint_is_no_result_and_a_healed_one_mends_it(project: Make, status: int) -> None:
    made = project()
    with bad_server(says({"error": {"message": "no"}}, status)) as server:
        ran = made.ht("evaluate", *live(server))
        assert ran.code == 4, ran.err
        assert f"error: 3 cells of run {ran.lines[0][:8]} ended in infrastructure failures" in ran.err
        server.acts = [OK]
        healed = made.ht("evaluate", *live(server), "--retry-infra")
    assert healed.code == 0, healed.err
    assert "1 of 3 solved" in healed.err
    assert healed.lines == ran.lines
    with made.store() as store:
        first = [rollout for rollout in store.rollouts(ran.lines[0]) if rollout.attempt == 1]
        assert {(rollout.outcome.value, rollout.reason) for rollout in first} == {("infra_llm", "refused")}


def test_a_key_that_expires_in_an_epoch_rejects_nothing(project: Make) -> None:
    made = project(patches={"01-one": "agent/skills/one"})
    with bad_server(OK) as server:
        baseline = made.ht("evaluate", *live(server))
        assert baseline.code == 0, baseline.err
        server.acts = [says({"error": {"message": "expired"}}, 403)]
        made.ht("epoch", *live(server))
    (epoch,) = parsed(made.ht("log", "--json"))["items"]
    assert (epoch["state"], epoch["lost"]) == ("unmeasurable", [])
    assert "3 cells failed by the infrastructure" in made.ht("report").out


def retries(ran: Ran) -> list[list[str]]:
    """The commands of a hint that measure again, as words."""
    return [shlex.split(one)[1:] for one in re.findall("`(ht evaluate [^`]*--retry-infra)`", ran.err)]


def test_the_way_out_is_a_whole_command_for_every_run(project: Make) -> None:
    made = project()
    no = says({"error": {"message": "no"}}, 401)
    with bad_server(no) as one, bad_server(no) as two:
        words = ["--panel", "tasks", "--split", "train", "--include", "t*", "--exclude", "two", "--seeds", "2"]
        words += ["--fresh", "a b", "--endpoint", one.url, "--endpoint", two.url, "--set", "measure.cache=off"]
        ran = made.ht("evaluate", *words, "--set", "sandbox.memory_mb=1500")
        assert ran.code == 4, ran.err
        told = [f"2 cells of run {run[:8]} on {at.url}" for run, at in zip(ran.lines, (one, two), strict=True)]
        assert f"error: {', '.join(told)} ended in infrastructure failures\n" in ran.err
        one.acts = two.acts = [OK]
        assert len(retries(ran)) == 2
        for command, run in zip(retries(ran), ran.lines, strict=True):
            healed = made.ht(*command)
            assert (healed.code, healed.lines) == (0, [run]), healed.err


def test_the_way_out_of_an_unmeasurable_verdict_is_a_whole_command(project: Make) -> None:
    made = project(patches={"01-one": "agent/skills/one"})
    with bad_server(OK) as server:
        assert made.ht("evaluate", *live(server), "--include", "o*").code == 0
        candidate = made.ht("propose").out.strip()
        server.acts = [says({"error": {"message": "no"}}, 401)]
        failed = made.ht("evaluate", candidate, *live(server), "--include", "o*")
        assert failed.code == 4, failed.err
        judged = made.ht("judge", f"..{candidate}", *live(server))
        refused = made.ht("promote", judged.out.strip(), *live(server))
        assert (judged.code, refused.code) == (4, 4), judged.err + refused.err
        assert "it may be another run" not in judged.err
        (made.root / "tasks/one/instruction.md").write_text("Something else.\n")
        assert (
            "(it may be another run: its tasks changed since)" in made.ht("judge", f"..{candidate}", *live(server)).err
        )
        made.git("checkout", "-q", "--", "tasks")
        server.acts = [OK]
        (again,), (same,) = retries(judged), retries(refused)
        assert again == same
        healed = made.ht(*again, "--set", "measure.cache=off")
        assert (healed.code, healed.lines) == (0, failed.lines), healed.err


@pytest.mark.parametrize(("body", "said"), [
    ("raise ValueError('oops')", "rules.py:2: ValueError: oops"),
    ("return 7", "rules.py: reply() returned 7"),
])  # fmt: skip
def test_broken_rules_are_named_and_measure_nothing(project: Make, body: str, said: str) -> None:
    made = project(files={"rules.py": f"def reply(request):\n    {body}\n"})
    ran = made.ht("evaluate", "--set", "llm.script=rules.py")
    assert ran.code == 2, ran.err
    assert said in ran.err
    assert "bug" not in ran.err
    with made.store() as store:
        assert [rollout for run in store.runs() for rollout in store.rollouts(run.id)] == []
