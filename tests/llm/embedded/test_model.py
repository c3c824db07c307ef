"""The whole engine with real worker processes: scheduling, death, restart and limits cannot be seen in a reply."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from harnesstrain.core.errors import BadRequest, ContextOverflow, Prerequisite, TransportFailure, UsageError
from harnesstrain.core.records.llm import LlmRequest, Reply, Sampling
from harnesstrain.llm.embedded.chatml import Prompt
from harnesstrain.llm.embedded.jobs import Completion
from harnesstrain.llm.embedded.model import EmbeddedModel, reply

pytestmark = pytest.mark.model

SYSTEM = {"role": "system", "content": "You are a careful shell agent. " * 10}
TOOL = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}


def request(subject: str, **sampling: Any) -> LlmRequest:
    messages = (SYSTEM, {"role": "user", "content": f"Tell me about {subject}. " * 6})
    return LlmRequest(messages=messages, sampling=Sampling(**{"temperature": 1.0, "max_tokens": 6, **sampling}))


def mix() -> list[LlmRequest]:
    """Requests with shared and distinct prefixes, greedy and sampled, of several lengths."""
    return [
        request("apples", seed=1),
        request("apples", seed=2),
        request("pears", temperature=0),
        request("apples and pears " * 8, seed=3, top_p=0.9),
        LlmRequest(messages=({"role": "user", "content": "Hi"},), sampling=Sampling(max_tokens=6)),
    ]


def bits(answer: Reply) -> tuple[Any, ...]:
    """What must be equal: everything but what a kept prefix saved and how long it took."""
    return (answer.content, answer.token_ids, answer.logprobs, answer.finish_reason, answer.usage.prompt)


@pytest.fixture(scope="module")
def alone(small_model: EmbeddedModel) -> list[tuple[Any, ...]]:
    """The replies to the mix, one request at a time."""
    return [bits(small_model.complete(one)) for one in mix()]


def test_replies_do_not_depend_on_concurrency_or_order(small_model, alone):
    order = [*range(len(alone)), *range(len(alone))]
    random.Random(5).shuffle(order)
    with ThreadPoolExecutor(len(order)) as threads:
        answers = list(threads.map(lambda place: (place, small_model.complete(mix()[place])), order))
    assert [bits(answer) for _, answer in answers] == [alone[place] for place, _ in answers]
    assert len(small_model.worker_pids()) == 2, "only one worker ran, so nothing ran at the same time"
    assert any(answer.usage.cached for _, answer in answers), "no prefix was reused, so reuse was not tested"


def test_replies_do_not_depend_on_the_process(small_file, small_model, alone):
    """A restart, another number of workers, another context length, another thread."""
    fresh = EmbeddedModel(small_file, context_length=512, workers=1, logprobs=True)
    try:
        assert [bits(fresh.complete(one)) for one in mix()[:2]] == alone[:2]
        assert fresh.endpoint().fingerprint != small_model.endpoint().fingerprint
    finally:
        fresh.close()


def test_a_killed_worker_is_replaced_and_the_request_tried_again(small_model, alone):
    long = request("the sea", max_tokens=60, temperature=0)
    expected = bits(small_model.complete(long))
    for pid in small_model.worker_pids():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not small_model.worker_pids())
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(small_model.complete, long)
        os.kill(wait_for(small_model.worker_pids)[0], signal.SIGKILL)
        assert bits(running.result()) == expected
    assert bits(small_model.complete(mix()[0])) == alone[0]


def test_a_request_that_sees_two_workers_die_fails_with_the_reason(small_file):
    model = EmbeddedModel(small_file, context_length=512, workers=1)
    try:
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(model.complete, request("the sea", max_tokens=400, temperature=0))
            first = wait_for(model.worker_pids)[0]
            os.kill(first, signal.SIGKILL)
            os.kill(wait_for(lambda: [pid for pid in model.worker_pids() if pid != first])[0], signal.SIGKILL)
            with pytest.raises(TransportFailure, match="signal 9"):
                running.result()
    finally:
        model.close()


def test_tokens_are_counted_while_completions_run(small_model):
    conversation = [{"role": "user", "content": "Hi"}]
    counted = small_model.count_tokens(conversation)
    answer = small_model.complete(LlmRequest(messages=tuple(conversation), sampling=Sampling(max_tokens=1)))
    assert counted == answer.usage.prompt
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(small_model.complete, request(f"{n}", max_tokens=80)) for n in range(2)]
        assert small_model.count_tokens(conversation) == counted
        assert not all(one.done() for one in running)


def test_an_overflow_is_typed_and_carries_the_numbers(small_model):
    with pytest.raises(ContextOverflow) as caught:
        small_model.complete(request("words " * 1200))
    assert caught.value.extra["prompt_tokens"] > caught.value.extra["context_length"] == 1024
    assert caught.value.hint


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0}, {"top_p": 2}, {"top_k": 0}, {"max_tokens": 0}],
)
def test_sampling_out_of_range_is_refused(small_model, wrong):
    with pytest.raises(BadRequest):
        small_model.complete(request("x", **wrong))


def test_a_stopped_request_gives_up(small_model):
    stop = threading.Event()
    with ThreadPoolExecutor(4) as threads:
        running = [
            threads.submit(small_model.complete_until, request(f"s{n}", max_tokens=700, temperature=0), stop)
            for n in range(4)
        ]
        stop.set()
        answers = [one.result() for one in running]
    assert {answer.finish_reason for answer in answers} == {"abort"}
    assert small_model.complete_until(request("t"), threading.Event()).finish_reason in ("length", "stop")


def test_a_required_tool_call_begins_the_reply(small_model):
    choice = {"type": "function", "function": {"name": "run"}}
    asked = request("files", max_tokens=40, temperature=0).model_copy(update={"tools": (TOOL,), "tool_choice": choice})
    answer = small_model.complete(asked)
    assert answer.content.startswith('<tool_call>\n{"name": "run", "arguments": ')
    assert [call.name for call in answer.tool_calls] in ([], ["run"])


def test_a_required_block_is_closed_when_the_model_only_ends():
    forced = Prompt(turns=("a",), forced='<tool_call>\n{"name": "')
    asked = request("x").model_copy(update={"tools": (TOOL,), "tool_choice": "required"})
    done = Completion(
        text='run", "arguments": {}}', tokens=(1,), logprobs=None, finish="stop", prompt_tokens=3, reused=0, seconds=0.5
    )
    assert [call.name for call in reply(asked, forced, done).tool_calls] == ["run"]
    cut = done.model_copy(update={"finish": "length"})
    assert (reply(asked, forced, cut).tool_calls, reply(asked, forced, cut).finish_reason) == ((), "length")


def test_calls_are_read_only_when_tools_were_offered():
    text = 'Now.\n<tool_call>\n{"name": "run", "arguments": {"command": "ls"}}\n</tool_call>'
    done = Completion(text=text, tokens=(1,), logprobs=None, finish="stop", prompt_tokens=3, reused=0, seconds=0.5)
    plain = request("x")
    offered = plain.model_copy(update={"tools": (TOOL,)})
    with_calls = reply(offered, Prompt(turns=("a",)), done)
    assert (with_calls.content, with_calls.finish_reason) == (text, "tool_calls")
    assert [(call.name, call.arguments) for call in with_calls.tool_calls] == [("run", '{"command": "ls"}')]
    for asked in (plain, offered.model_copy(update={"tool_choice": "none"})):
        assert (
            reply(asked, Prompt(turns=("a",)), done).tool_calls,
            reply(asked, Prompt(turns=("a",)), done).content,
        ) == (
            (),
            text,
        )
    other = reply(offered, Prompt(turns=("b",)), done)
    assert other.tool_calls[0].id != with_calls.tool_calls[0].id


def test_the_endpoint_says_what_decides_a_reply_and_starts_nothing(small_file):
    model = EmbeddedModel(small_file)
    try:
        endpoint = model.endpoint()
        assert endpoint.deterministic and endpoint.engine == "embedded"
        assert set(endpoint.identity) == {
            *("library", "build", "isa", "libm", "weights", "template", "profile", "chunk"),
        }
        assert endpoint.identity["weights"] == small_file.sha256
        assert model.worker_pids() == []
    finally:
        model.close()


@pytest.mark.parametrize(
    "wrong", [{"context_length": 1000}, {"context_length": 9216}, {"max_running": 0}, {"workers": 0}]
)
def test_impossible_settings_are_refused_at_once(small_file, wrong):
    with pytest.raises(UsageError):
        EmbeddedModel(small_file, **wrong)


def test_a_file_of_no_catalogue_is_tried_at_once(small_file, tmp_path):
    unknown = small_file.model_copy(update={"context": None})
    model = EmbeddedModel(unknown, context_length=512)
    assert len(model.worker_pids()) == 1
    model.close()
    with pytest.raises(UsageError, match="context length"):
        EmbeddedModel(unknown, context_length=16_384)
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF")
    with pytest.raises(Prerequisite, match=r"wrong\.gguf is not a model file"):
        EmbeddedModel(unknown.model_copy(update={"path": wrong}))


def test_a_closed_model_refuses_and_leaves_nothing(small_file):
    model = EmbeddedModel(small_file, context_length=512, workers=1)
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(model.complete, request(f"c{n}", max_tokens=400, temperature=0)) for n in range(2)]
        pid = wait_for(model.worker_pids)[0]
        model.close()
        for one in running:
            with pytest.raises(TransportFailure, match="closed|ended"):
                one.result()
    model.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(TransportFailure, match="closed"):
        model.complete(request("x"))


SCRIPT = """
import contextlib, sys, threading
from harnesstrain.core.errors import TransportFailure
from harnesstrain.core.records.llm import LlmRequest, Sampling
from harnesstrain.llm.embedded.model import EmbeddedModel
from harnesstrain.llm.models.pull import model_file
model = EmbeddedModel(model_file(sys.argv[1]), context_length=2048, workers=1)
ask = LlmRequest(messages=({"role": "user", "content": "Count."},), sampling=Sampling(max_tokens=1800))
model.count_tokens(ask.messages)
def complete():
    with contextlib.suppress(TransportFailure):
        model.complete(ask)
threading.Thread(target=complete, daemon=True).start()
print(*model.worker_pids(), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "ends without closing"])
def test_workers_end_with_their_parent(small_file, end):
    parent = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(small_file.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert pids and all(psutil.pid_exists(pid) for pid in pids)
    if end is not None:
        parent.send_signal(end)
    _, said = parent.communicate()
    assert wait_for(lambda: not any(running(pid) for pid in pids))
    if end is None:
        assert (parent.returncode, said) == (0, "")


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(ask: Any) -> Any:
    """What `ask` says once it says something; the test's own timeout bounds the wait."""
    while not (answer := ask()):
        time.sleep(0.01)
    return answer
