"""Keys and digests that older stores hold: what is recorded for the same exchange never changes."""

from __future__ import annotations

from typing import Any

from harnesstrain.core.records.llm import LlmRequest, Reply, Sampling, ToolCall, Usage
from harnesstrain.core.records.rollout import Source, Trace
from harnesstrain.core.records.sandbox import Limits, RunResult, SandboxIdentity
from harnesstrain.core.records.task import Environment
from harnesstrain.harness.protocol import Complete, read_call
from harnesstrain.harness.wire import decode
from harnesstrain.llm.base import Answer
from harnesstrain.llm.requests import request_key
from harnesstrain.rollout import exchange
from harnesstrain.rollout.action import Acted, read_action, run_action, step_of, write_action
from harnesstrain.rollout.chain import Chain, entry_of, start_key
from harnesstrain.rollout.conversation import Conversations
from harnesstrain.rollout.recorder import Recorder
from harnesstrain.sandbox.base import FileFault
from harnesstrain.store.rows import digest_of_rows, rows_of

TOOLS = '[{"type":"function","function":{"name":"run","parameters":{"type":"object","n":1.5,"t":true,"z":null}}}]'
CALLS = (
    '{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"na\\u00efve \\ud83d\\ude00"}],'
    f'"tools":{TOOLS}}}',
    '{"messages":{"prefix":"h1","append":[{"role":"assistant","content":"e\\u0301","tool_calls":[{"id":"1","type":'
    '"function","function":{"name":"run","arguments":"{\\"a\\": 1}"}}]},{"role":"tool","content":"out","n":1}]},'
    f'"tools":{TOOLS},"sampling":{{"temperature":0.5}}}}',
    '{"messages":[{"role":"user","content":"again"}],"tool_choice":"auto"}',
)
ACTIONS = (
    (
        run_action("echo é", "/app", 5.0, b"\xff"),
        Acted(RunResult(exit_code=0, stdout=b"e\xcc\x81 1.25s\n", duration=0.5)),
    ),
    (read_action("/no"), Acted(RunResult(exit_code=1, stderr=b"gone"), FileFault("ENOENT", "/no", "gone"))),
    (write_action("f", b"data", 0o600), Acted(RunResult(exit_code=0, stdout=b"\xff\xfe", duration=2.0, left=1))),
)


def exchanged() -> dict[str, Any]:
    """The digests of a small episode."""
    conversations, recorder = Conversations(), Recorder()
    chain = Chain(start_key(SandboxIdentity(kind="local", image="i", pins="1"), Limits(), Environment(digest="e" * 64)))
    keys = []
    for number, text in enumerate(CALLS):
        line = f'{{"jsonrpc":"2.0","id":{number},"method":"llm.complete","params":{text}}}'
        call = read_call(decode(line.encode())).params
        assert isinstance(call, Complete)
        said = exchange.keep(conversations, call)
        request = exchange.request_for(call, said, Sampling(seed=number, **call.sampling))
        tools = conversations.keep_tools(call.tools)
        key = request_key("f" * 64, request, head=said.conversation.head, sample=number or None)
        assert key == request_key("f" * 64, LlmRequest(**dict(request)), sample=number or None)
        keys.append(key)
        reply = Reply(
            content="é", tool_calls=(ToolCall(id="1", name="run", arguments="{}"),), usage=Usage(prompt=3), duration=0.1
        )
        answer = Answer(reply=reply, source=Source.CACHE, key=key)
        recorder.add(exchange.answered_step(recorder.reserve(), said, tools, answer))
        action, acted = ACTIONS[number]
        entry = entry_of(action, acted).model_copy(update={"rules": "r", "scrubbed": f"{number}"})
        link = chain.add(number, action, entry)
        recorder.add(step_of(recorder.reserve(), action, entry, Source.LIVE, recorder.extend_chain(action.digest)))
        keys += [link.key, link.state]
    trace = Trace(rollout="a" * 64, steps=recorder.steps(), messages=dict(conversations.kept), log="ü")
    found = (*keys, recorder.chain, recorder.requests, digest_of_rows(trace.rollout, rows_of(trace)))
    return {"first": " ".join(one[:6] for one in found if one), "trace": found[-1]}


def test_what_is_recorded_of_an_exchange_never_changes() -> None:
    assert exchanged() == GOLDEN


GOLDEN = {
    "first": "645e10 3e9034 fae8a8 03a318 e06214 7a9d3d e601d9 2ad3ae aab9ff 78da72 c662a1 f3e0ed",
    "trace": "f3e0ed92b96a5a1c930d978decaa78ed94c6491a31aa1aacf682c357c74d4a5e",
}
