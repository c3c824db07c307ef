"""Every outcome of a rollout, from real harness processes in a real sandbox."""

from __future__ import annotations

import pytest

from harnesstrain.core.errors import ConfigError, SandboxFailure
from harnesstrain.core.records.llm import Sampling
from harnesstrain.core.records.rollout import Outcome, Reason, Rollout
from harnesstrain.core.records.run import Budgets
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.harness.process import HarnessLimits
from harnesstrain.llm.script import Script, Settings
from harnesstrain.sandbox.base import Session
from harnesstrain.sandbox.local import LocalSandbox
from tests.rollout.making import Workbench

pytestmark = pytest.mark.local

DONE = "ep.run('touch done')"
SAY_HI = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize",'
    ' "params": {"protocol": 1, "sdk": {"name": "t", "version": "1"}}}'
)


def ended(rollout: Rollout) -> tuple[Outcome, str | None]:
    """Outcome and reason; an unscorable rollout must carry no grade."""
    assert rollout.outcome.scorable or rollout.reward is None
    return rollout.outcome, rollout.reason


def test_solved(workbench: Workbench) -> None:
    rollout = workbench.solve(f"{DONE}\nep.submit()").rollout
    assert ended(rollout) == (Outcome.SOLVED, None)
    assert (rollout.reward, rollout.actions, rollout.llm_calls) == (1.0, 1, 0)
    assert rollout.isolated


def test_failed_verification(workbench: Workbench) -> None:
    rollout = workbench.solve("ep.run('true')\nep.submit()").rollout
    assert (*ended(rollout), rollout.reward) == (Outcome.FAILED_VERIFICATION, None, 0.0)


def test_a_reward_below_the_pass_reward_does_not_solve(workbench: Workbench) -> None:
    test_sh = 'mkdir -p /logs/verifier; echo \'{"reward": 0.7, "style": 0.2}\' > /logs/verifier/reward.json'
    rollout = workbench.solve("ep.submit()", task=workbench.task(test_sh)).rollout
    assert (rollout.outcome, rollout.reward) == (Outcome.FAILED_VERIFICATION, 0.7)
    assert rollout.rewards == {"reward": 0.7, "style": 0.2}
    rollout = workbench.solve("ep.submit()", task=workbench.task(test_sh, pass_reward=0.7)).rollout
    assert rollout.outcome is Outcome.SOLVED


def test_giving_up(workbench: Workbench) -> None:
    rollout = workbench.solve(DONE).rollout
    assert ended(rollout) == (Outcome.NO_SUBMIT, Reason.GAVE_UP)
    assert rollout.reward is None


def test_the_final_state_counts_where_the_regime_says_so(workbench: Workbench) -> None:
    bench = workbench.bench(grading="final_state")
    assert workbench.solve(DONE, bench).rollout.outcome is Outcome.SOLVED
    rollout = workbench.solve("pass", bench).rollout
    assert (*ended(rollout), rollout.reward) == (Outcome.NO_SUBMIT, Reason.GAVE_UP, 0.0)


def test_context_overflow(workbench: Workbench) -> None:
    bench = workbench.bench(settings=Settings(context_length=50))
    body = """
try:
    ep.complete([{"role": "user", "content": "x" * 4000}])
except ContextOverflow:
    pass
"""
    finished = workbench.solve(body, bench)
    assert ended(finished.rollout) == (Outcome.NO_SUBMIT, Reason.CONTEXT_OVERFLOW)
    assert "context_overflow" in (finished.trace.steps[0].error or "")


def test_an_overflow_that_the_harness_recovered_from_is_not_the_reason(workbench: Workbench) -> None:
    bench = workbench.bench(settings=Settings(context_length=50))
    body = """
try:
    ep.complete([{"role": "user", "content": "x" * 4000}])
except ContextOverflow:
    ep.complete([{"role": "user", "content": "x"}])
"""
    assert workbench.solve(body, bench).rollout.reason == Reason.GAVE_UP


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        (Budgets(steps=2), Reason.STEP_LIMIT),
        (Budgets(actions=3), Reason.STEP_LIMIT),
        (Budgets(tokens=30), Reason.TOKEN_LIMIT),
        (Budgets(time=9), Reason.TIME_LIMIT),
    ],
)
def test_budgets_are_exact(workbench: Workbench, budgets: Budgets, reason: Reason) -> None:
    bench = workbench.bench([{"reply": "four tokens here", "duration": 3.0}], budgets=budgets)
    body = """
while True:
    ep.complete([{"role": "user", "content": "12345678"}])
    ep.run("true")
"""
    rollout = workbench.solve(body, bench).rollout
    assert ended(rollout) == (Outcome.NO_SUBMIT, reason)
    calls, actions = {
        "steps=2": (2, 2),
        "actions=3": (4, 3),
        "tokens=30": (3, 3),  # 4 + 6 tokens a call: 30 after three
        "time=9": (3, 2),  # three seconds a call; nothing is left for the third action
    }[next(f"{name}={getattr(budgets, name):g}" for name in budgets.model_fields_set)]
    assert (rollout.llm_calls, rollout.actions) == (calls, actions)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (f"print('{SAY_HI}', flush=True); import sys; sys.exit(3)", "harness exited 3"),
        ("raise RuntimeError('out of ideas')", "RuntimeError: out of ideas"),
        ("print('hello')", "it is not JSON: 'hello'"),
        ('print(\'{"id": 1, "method": "submit"}\')', 'lacks "jsonrpc": "2.0"'),
        ("print('[1, 2]')", "not a JSON object"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "harness exited 139"),
        ("print('x' * 20_000_000)", "a line of more than"),
    ],
    ids=["exit", "exception", "no-json", "no-jsonrpc", "no-object", "signal", "long-line"],
)
def test_crashes(workbench: Workbench, program: str, why: str) -> None:
    rollout = workbench.play(program).rollout
    assert ended(rollout) == (Outcome.POLICY_CRASH, None)
    assert why in rollout.detail


def test_a_silent_harness_crashed(workbench: Workbench) -> None:
    bench = workbench.bench(harness_idle=0.5)
    rollout = workbench.play("import time; time.sleep(60)", bench).rollout
    assert (*ended(rollout), rollout.detail) == (Outcome.POLICY_CRASH, None, "no message for 0.5 seconds")


def test_a_harness_that_loops_without_end_crashed(workbench: Workbench) -> None:
    bench = workbench.bench(harness_idle=30, harness_time=1.0)
    rollout = workbench.solve("import time\nwhile True:\n    time.sleep(0.2)\n    ep.note()", bench).rollout
    assert rollout.outcome is Outcome.POLICY_CRASH
    assert rollout.detail == "the harness took more than 1 seconds for itself"


def test_a_harness_that_floods_crashed(workbench: Workbench) -> None:
    program = """
import sys
line = '{"jsonrpc": "2.0", "id": 1, "method": "note", "params": {}}\\n' * 1000
while True:
    sys.stdout.write(line)
"""
    bench = workbench.bench(harness_limits=HarnessLimits(messages=2000, write_seconds=1))
    rollout = workbench.play(program, bench).rollout
    assert rollout.outcome is Outcome.POLICY_CRASH
    assert "more than 2000 messages" in rollout.detail or "reads no answer" in rollout.detail
    bench = workbench.bench(harness_limits=HarnessLimits(total_bytes=5000, write_seconds=1))
    assert "more than 5000 bytes" in workbench.solve("for n in range(99):\n    ep.note()", bench).rollout.detail


def test_a_harness_that_forks_without_end_crashed_or_gave_up(workbench: Workbench) -> None:
    program = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        os._exit(7)\n"
    bench = workbench.bench(harness_idle=20)
    assert ended(workbench.play(program, bench).rollout) == (Outcome.POLICY_CRASH, None)


def test_a_memory_bomb_crashed(workbench: Workbench) -> None:
    program = "import os\nkept = []\nwhile True:\n    kept.append(bytearray(os.urandom(1 << 20)) * 64)\n"
    bench = workbench.bench(harness_limits=HarnessLimits(memory_mb=256))
    assert ended(workbench.play(program, bench).rollout) == (Outcome.POLICY_CRASH, None)


def test_infrastructure_of_the_model(workbench: Workbench) -> None:
    bench = workbench.bench([{"error": "transport", "message": "connection refused"}])
    rollout = workbench.solve(f"{DONE}\nep.complete([{{'role': 'user', 'content': 'x'}}])\nep.submit()", bench).rollout
    assert ended(rollout) == (Outcome.INFRA_LLM, "transport")
    assert rollout.detail == "connection refused"


def test_an_endpoint_that_refuses_anything_is_no_fault_of_the_harness(workbench: Workbench) -> None:
    bench = workbench.bench([{"error": "refused", "message": "the endpoint refused the API key (401)"}])
    body = "try:\n    ep.complete([{'role': 'user', 'content': 'x'}])\nexcept Exception:\n    pass\nep.submit()"
    rollout = workbench.solve(body, bench).rollout
    assert ended(rollout) == (Outcome.INFRA_LLM, "refused")
    assert rollout.detail == "the endpoint refused the API key (401)"


def test_a_script_that_breaks_is_nobodys_outcome(workbench: Workbench) -> None:
    bench = workbench.bench(Script(lambda request: 7, identity="6" * 64))
    with pytest.raises(ConfigError, match="returned 7"):
        workbench.solve("ep.complete([{'role': 'user', 'content': 'x'}])\nep.submit()", bench)


def test_infrastructure_that_fails_while_the_harness_speaks_is_not_its_fault(workbench: Workbench) -> None:
    """The model goes away while the harness writes a line that is never finished, and while a command runs."""
    bench = workbench.bench([{"error": "transport", "delay": 0.3}])
    program = """
import json, sys, time
def send(text): sys.stdout.write(text); sys.stdout.flush()
say = lambda n, method, params: json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params})
send(say(1, "llm.complete", {"messages": [{"role": "user", "content": "x"}]}) + "\\n")
%s
time.sleep(60)
"""
    half = workbench.play(program % "send('{\"half\": ')", bench).rollout
    assert ended(half) == (Outcome.INFRA_LLM, "transport")
    busy = workbench.play(program % "send(say(2, 'env.run', {'command': 'sleep 1'}) + '\\n')", bench).rollout
    assert ended(busy) == (Outcome.INFRA_LLM, "transport")
    exits = workbench.play(program % "sys.stdin.readline(); sys.exit(1)", bench).rollout
    assert ended(exits) == (Outcome.INFRA_LLM, "transport")


def test_infrastructure_of_the_sandbox_at_the_start(workbench: Workbench) -> None:
    environment = Environment(workdir="/proc/version", digest="2" * 64)
    rollout = workbench.solve("ep.submit()", task=workbench.task(environment=environment)).rollout
    assert ended(rollout) == (Outcome.INFRA_SANDBOX, "infra_sandbox")


class Breaking(LocalSandbox):
    """Its sessions lose their agent before the second command."""

    def open(  # type: ignore[override]
        self, environment: Environment, *, limits: Limits | None = None, at: str | None = None
    ) -> Session:
        session = super().open(environment, limits=limits)
        run, left = session.run, [1]

        def once(*args: object, **kwargs: object) -> object:
            if not left:
                session.agent.channel.process.kill()  # type: ignore[attr-defined]
            left and left.pop()
            return run(*args, **kwargs)  # type: ignore[arg-type]

        session.run = once  # type: ignore[method-assign, assignment]
        return session


def test_infrastructure_of_the_sandbox_in_the_middle(workbench: Workbench) -> None:
    workbench.sandbox = Breaking()
    rollout = workbench.solve("ep.run('true')\nep.run('touch done')\nep.submit()").rollout
    assert ended(rollout) == (Outcome.INFRA_SANDBOX, "infra_sandbox")
    assert rollout.actions == 2


@pytest.mark.parametrize(
    ("test_sh", "rule", "why"),
    [
        ("true", "no_reward", "the verifier wrote no reward (test.sh exited 0)"),
        ("exit 3", "no_reward", "the verifier wrote no reward (test.sh exited 3)"),
        ("kill -9 $$", "killed", "the verifier was killed (test.sh exited 137)"),
        ("echo perhaps > /logs/verifier/reward.txt", "malformed_reward", "does not hold one finite number"),
        ("echo nan > /logs/verifier/reward.txt", "malformed_reward", "does not hold one finite number"),
        (": > /logs/verifier/reward.txt", "malformed_reward", "is empty"),
        ("mkdir -p /logs/verifier/reward.txt", "malformed_reward", "cannot be read"),
        ("uvx pytest; echo $? > /dev/null; echo 0 > /logs/verifier/reward.txt", "tool_missing", "line 1: uvx: command"),
        ("echo 'curl: (6) Could not resolve host: astral.sh' >&2; exit 1", "no_network", "resolve host: astral.sh"),
    ],
)
def test_infrastructure_of_the_verifier(workbench: Workbench, test_sh: str, rule: str, why: str) -> None:
    rollout = workbench.solve("ep.submit()", task=workbench.task(test_sh)).rollout
    assert ended(rollout) == (Outcome.INFRA_VERIFIER, rule)
    assert rollout.detail.startswith(f"{rule}: ")
    assert why in rollout.detail


def test_a_verifier_that_never_ends(workbench: Workbench) -> None:
    task = workbench.task("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; sleep 600")
    task = task.model_copy(update={"verifier": task.verifier.model_copy(update={"timeout": 1.0})})
    rollout = workbench.solve("ep.submit()", task=task).rollout
    assert ended(rollout) == (Outcome.INFRA_VERIFIER, "timed_out")
    assert "ran past 1 s" in rollout.detail


def test_a_defect_of_the_driver_is_never_a_grade(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("harnesstrain.rollout.ground.perform", broken)
    with pytest.raises(ZeroDivisionError):
        workbench.solve("ep.run('true')\nep.submit()")


def test_a_harness_that_crashes_after_it_submitted_is_graded(workbench: Workbench) -> None:
    body = f"{DONE}\nep.submit()\nimport os\nos._exit(9)"
    assert workbench.solve(body).rollout.outcome is Outcome.SOLVED


def test_what_a_harness_logs_is_kept(workbench: Workbench) -> None:
    finished = workbench.solve("import sys\nprint('thinking', file=sys.stderr)\nep.submit()")
    assert "thinking" in finished.trace.log


def test_sampling_of_the_regime_reaches_the_model(workbench: Workbench) -> None:
    seen = []

    def reply(request: object) -> str:
        seen.append(request.sampling)  # type: ignore[attr-defined]
        return "ok"

    bench = workbench.bench(Script(reply, identity="5" * 64), sampling=Sampling(seed=100, max_tokens=50))
    workbench.solve("ep.complete([{'role': 'user', 'content': 'x'}])\nep.submit()", bench, seed=3)
    assert [(one.seed, one.max_tokens) for one in seen] == [(102, 50)]


def test_infra_failures_carry_their_first_line_only(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def refuse(*args: object, **kwargs: object) -> None:
        tries.append(1)
        raise SandboxFailure("no room\nsecond line")

    monkeypatch.setattr(workbench.sandbox, "open", refuse)
    rollout = workbench.solve("ep.submit()").rollout
    assert (*ended(rollout), rollout.detail) == (Outcome.INFRA_SANDBOX, "infra_sandbox", "no room")
    assert len(tries) == 2  # a start is tried once more


def test_a_sandbox_that_starts_at_the_second_try(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    start, tries = workbench.sandbox.open, []

    def flaky(*args: object, **kwargs: object) -> Session:
        tries.append(1)
        if len(tries) == 1:
            raise SandboxFailure("no room yet")
        return start(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(workbench.sandbox, "open", flaky)
    assert workbench.solve(f"{DONE}\nep.submit()").rollout.outcome is Outcome.SOLVED
