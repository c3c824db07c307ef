"""What a harness may ask for, and what it is answered: real processes, jailed, against a real sandbox."""

from __future__ import annotations

import json

import pytest

from harnesstrain.core.records.llm import Sampling
from harnesstrain.core.records.rollout import Outcome, StepKind
from harnesstrain.core.records.run import Budgets
from tests.rollout.making import Workbench

pytestmark = pytest.mark.local

SAY = "said = lambda what: ep.note(said=what)\n"


def notes(finished: object) -> list[object]:
    """What the harness noted, in order."""
    steps = finished.trace.steps  # type: ignore[attr-defined]
    return [json.loads(step.note)["said"] for step in steps if step.kind is StepKind.NOTE]


def test_the_view_of_the_task_names_no_task_and_no_verifier(workbench: Workbench) -> None:
    bench = workbench.bench(budgets=Budgets(steps=7, tokens=500, time=60), sampling=Sampling(max_tokens=40))
    finished = workbench.solve(
        f"{SAY}t = ep.task\nsaid([t.instruction, t.workdir, t.model, t.context_length])\n"
        "b = t.budgets\nsaid([b.steps, b.tokens, b.seconds, b.max_tokens])\n"
        "said([name for name in dir(t) if name[0] != '_'])",
        bench,
    )
    view, budgets, names = notes(finished)
    assert view == ["Make /app/done.", "/app", "scripted", 32768]
    assert budgets == [7, 500, 60, 40]
    assert not {"name", "digest", "verifier", "id", "metadata"} & set(names)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sampling", "why"),
    [
        ({"temperature": 1.0}, "sampling override 'temperature' is not allowed; allowed: max_tokens, stop"),
        ({"seed": 7}, "sampling override 'seed' is not allowed"),
        ({"top_k": 5}, "sampling override 'top_k' is not allowed"),
        ({"max_tokens": 0}, "max_tokens must be a positive integer"),
        ({"max_tokens": True}, "max_tokens must be a positive integer"),
        ({"stop": 5}, "bad sampling override"),
    ],
)
def test_an_override_that_the_regime_does_not_allow_is_refused(
    workbench: Workbench, sampling: dict[str, object], why: str
) -> None:
    body = f"""
try:
    ep.complete([{{"role": "user", "content": "x"}}], **{sampling})
except ProtocolError as error:
    ep.note(said=error.message)
ep.run("touch done")
ep.submit()
"""
    finished = workbench.solve(body)
    assert why in str(notes(finished)[0])
    assert finished.rollout.outcome is Outcome.SOLVED
    assert finished.rollout.llm_calls == 0  # nothing was asked, nothing was spent


def test_max_tokens_goes_down_and_never_up(workbench: Workbench) -> None:
    bench = workbench.bench([{"reply": "x" * 400}], sampling=Sampling(max_tokens=20))
    body = f"""
{SAY}
ask = lambda n: ep.complete([{{"role": "user", "content": str(n)}}], max_tokens=n)
said([len(ask(n).content) for n in (5, 20, 4000)])
"""
    assert notes(workbench.solve(body, bench)) == [[20, 80, 80]]


def test_a_prefix_and_the_whole_list_are_the_same_request(workbench: Workbench) -> None:
    rules = [{"turn": 0, "reply": "first"}, {"turn": 1, "reply": "second"}]
    whole = """
import json, sys
def call(method, **params):
    call.n += 1
    print(json.dumps({"jsonrpc": "2.0", "id": call.n, "method": method, "params": params}), flush=True)
    return json.loads(sys.stdin.readline())["result"]
call.n = 0
one = {"role": "user", "content": "one"}
reply = call("llm.complete", messages=[one])
more = [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": "two"}]
call("llm.complete", messages=MESSAGES)
call("submit")
"""
    prefixed = whole.replace("MESSAGES", '{"prefix": reply["handle"], "append": more}')
    left = workbench.play(whole.replace("MESSAGES", "[one, *more]"), workbench.bench(rules))
    right = workbench.play(prefixed, workbench.bench(rules))
    assert left.rollout.requests_digest == right.rollout.requests_digest
    assert left.rollout.measurement == right.rollout.measurement
    assert left.trace.messages == right.trace.messages
    assert len(left.trace.messages) == 3  # each message once
    assert [step.content for step in right.trace.steps[:2]] == ["first", "second"]


def test_an_unknown_handle_is_the_harnesss_crash(workbench: Workbench) -> None:
    program = """
import json, sys
print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "llm.complete",
                  "params": {"messages": {"prefix": "h9", "append": []}}}), flush=True)
sys.stdin.readline()
"""
    rollout = workbench.play(program).rollout
    assert rollout.outcome is Outcome.POLICY_CRASH
    assert rollout.detail == "unknown conversation handle 'h9'"


def test_model_calls_of_a_threaded_harness_overlap(workbench: Workbench) -> None:
    bench = workbench.bench([{"reply": "ok", "delay": 0.3}])
    body = """
from concurrent.futures import ThreadPoolExecutor
ask = lambda n: ep.complete([{"role": "user", "content": f"question {n}"}]).content
with ThreadPoolExecutor(5) as pool:
    assert list(pool.map(ask, range(5))) == ["ok"] * 5
ep.run("touch done")
ep.submit()
"""
    rollout = workbench.solve(body, bench).rollout
    assert (rollout.outcome, rollout.llm_calls) == (Outcome.SOLVED, 5)
    assert workbench.model is not None
    assert workbench.model.peak >= 2


def test_overlapping_requests_are_digested_in_order_of_arrival(workbench: Workbench) -> None:
    """The first request is answered last; a second rollout answers them the other way round."""
    program = """
import json, sys
for n, text in enumerate(("slow", "fast")):
    print(json.dumps({"jsonrpc": "2.0", "id": n, "method": "llm.complete",
                      "params": {"messages": [{"role": "user", "content": text}]}}), flush=True)
print([json.loads(sys.stdin.readline())["id"] for _ in range(2)], file=sys.stderr)
"""

    def rules(slow: str) -> list[dict[str, object]]:
        return [{"match": slow, "reply": "ok", "delay": 0.3, "duration": 1}, {"reply": "ok", "duration": 1}]

    one = workbench.play(program, workbench.bench(rules("slow")))
    other = workbench.play(program, workbench.bench(rules("fast")))
    assert (one.trace.log.strip(), other.trace.log.strip()) == ("[1, 0]", "[0, 1]")
    texts = [[one.trace.messages[key]["content"] for key in step.messages] for step in one.trace.steps]  # type: ignore[call-overload]
    assert texts == [["slow"], ["fast"]]
    assert [step.messages for step in one.trace.steps] == [step.messages for step in other.trace.steps]


def test_environment_actions_of_a_threaded_harness_stay_a_sequence(workbench: Workbench) -> None:
    body = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda n: ep.run(f"echo {n} >> list; sleep 0.05; echo {n} >> list"), range(4)))
lines = ep.read("list").decode().split()
ep.note(said=[lines[i] == lines[i + 1] for i in range(0, 8, 2)])
"""
    finished = workbench.solve(body)
    assert notes(finished) == [[True] * 4]
    chains = [step.request_digest for step in finished.trace.steps if step.kind in (StepKind.RUN, StepKind.READ)]
    assert len(set(chains)) == 5
    assert finished.rollout.chain_digest == chains[-1]


def test_notes_count_what_needed_no_repair(workbench: Workbench) -> None:
    rollout = workbench.solve("for valid in (True, False, True, 1, None):\n    ep.note(valid=valid)").rollout
    assert (rollout.first_try_valid, rollout.first_try_total) == (2, 3)


def test_a_giant_note_is_cut(workbench: Workbench) -> None:
    finished = workbench.solve("ep.note(said='x' * 1_000_000)")
    (step,) = finished.trace.steps
    assert step.note is not None
    assert len(step.note) < 65_536
    assert json.loads(step.note)["cut"] > 1_000_000


def test_files_travel_as_bytes_and_faults_are_the_harnesss_to_handle(workbench: Workbench) -> None:
    body = f"""
{SAY}
blob = bytes(range(256))
ep.write("deep/er/blob.bin", blob, 0o600)
said(ep.read("/app/deep/er/blob.bin") == blob)
said(ep.run("stat -c %a deep/er/blob.bin").stdout.strip())
for path in ("missing", "deep", "/proc/version/x"):
    try:
        ep.read(path)
    except FileFault as fault:
        said([fault.data['errno'], fault.data['path']])
"""
    finished = workbench.solve(body)
    faults = [["ENOENT", "missing"], ["EISDIR", "deep"], ["ENOTDIR", "/proc/version/x"]]
    assert notes(finished) == [True, "600", *faults]
    assert finished.rollout.actions == 6  # a fault is an action, part of the chain
    assert [s.error is not None for s in finished.trace.steps if s.kind is StepKind.READ] == [False, True, True, True]


def test_commands_are_recorded_exactly(workbench: Workbench) -> None:
    """Two names that are the same after Unicode normalisation are two names."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    chains = []
    for name in (composed, decomposed):
        finished = workbench.solve(f"ep.run('touch {name}; ls')")
        (step,) = finished.trace.steps
        assert step.action is not None
        assert json.loads(step.action)["command"] == f"touch {name}; ls"
        assert step.stdout == f"{name}\n".encode()
        chains.append(finished.rollout.chain_digest)
    assert chains[0] != chains[1]


def test_what_a_command_was_given_and_gave_is_recorded(workbench: Workbench) -> None:
    finished = workbench.solve("ep.run('cat; echo err >&2; exit 3', cwd='/tmp', stdin=b'\\xffin')")
    (step,) = finished.trace.steps
    assert (step.exit_code, step.stdout, step.stderr) == (3, b"\xffin", b"err\n")
    assert step.duration > 0
    assert not step.timed_out
    assert finished.rollout.recorded_time == pytest.approx(step.duration, abs=1e-5)


def test_a_command_is_bounded_by_the_time_that_is_left(workbench: Workbench) -> None:
    bench = workbench.bench(budgets=Budgets(time=1.5))
    finished = workbench.solve("ep.run('sleep 60')\nep.run('true')", bench)
    assert finished.trace.steps[0].timed_out
    assert finished.trace.steps[0].live_only
    assert finished.rollout.reason == "time_limit"


def test_tokens_are_counted_for_nothing(workbench: Workbench) -> None:
    text, messages = "'x' * 400", "[{'role': 'user', 'content': 'x' * 400}]"
    finished = workbench.solve(f"{SAY}\nsaid([ep.count_tokens({text}), ep.count_tokens({messages})])")
    (counted,) = notes(finished)
    assert counted == [104, 104]
    assert finished.rollout.llm_calls == 0


def test_unknown_methods_and_bad_params_are_answered_and_forgiven(workbench: Workbench) -> None:
    program = """
import json, sys
def call(method, params):
    print(json.dumps({"jsonrpc": "2.0", "id": "a", "method": method, "params": params}), flush=True)
    return json.loads(sys.stdin.readline()).get("error", {}).get("code")
codes = [call("env.fly", {}), call("env.run", {}), call("env.run", {"command": "x", "sudo": True}),
         call("llm.complete", {"messages": []}), call("env.run", {"command": "a\\0b"})]
print(codes, file=sys.stderr)
call("env.run", {"command": "touch done"})
call("submit", {})
"""
    finished = workbench.play(program)
    assert finished.trace.log.strip() == "[-32601, -32602, -32602, -32602, -32602]"
    assert finished.rollout.outcome is Outcome.SOLVED
    assert (finished.rollout.llm_calls, finished.rollout.actions) == (0, 1)


def test_a_request_the_model_refuses_is_the_harnesss_to_handle(workbench: Workbench) -> None:
    bench = workbench.bench([{"error": "bad_request", "message": "tools are not supported"}])
    body = """
try:
    ep.complete([{"role": "user", "content": "x"}])
except ProtocolError as error:
    ep.note(said=error.message)
"""
    finished = workbench.solve(body, bench)
    assert notes(finished) == ["tools are not supported"]
    assert finished.rollout.outcome is Outcome.NO_SUBMIT
    assert finished.trace.steps[0].request_digest is not None
