"""A trace as rows and back, for any trace there can be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.errors import HtError
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Source, Step, StepKind, Trace
from harnesstrain.store.rows import digest_of_rows, rows_of, trace_of
from harnesstrain.store.traces import TraceFile, TraceReader

ROLLOUT = "a" * 64
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
maybe_text = st.none() | text
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
bodies = st.dictionaries(st.text(max_size=8), json_values, max_size=4) | st.lists(json_values, max_size=3)
names = [f"{number:064x}" for number in range(12)]
counts = st.integers(0, 10**9)


@st.composite
def steps(draw: st.DrawFn, index: int, known: list[str]) -> Step:
    """Any step whose messages are among `known`; conversations continue, branch and restart."""
    listed = tuple(draw(st.lists(st.sampled_from(known), max_size=6))) if known else ()
    return Step(
        index=index,
        kind=draw(st.sampled_from(StepKind)),
        source=draw(st.sampled_from(Source)),
        duration=draw(st.floats(0, 1e9)),
        request_digest=draw(maybe_text),
        messages=draw(st.just(listed) | st.just(tuple(known))),
        tools=draw(st.none() | st.sampled_from(known)) if known else None,
        content=draw(maybe_text),
        reasoning=draw(maybe_text),
        tool_calls=draw(maybe_text),
        finish_reason=draw(maybe_text),
        usage=draw(st.none() | st.builds(Usage, prompt=counts, cached=counts, completion=counts, reasoning=counts)),
        action=draw(maybe_text),
        exit_code=draw(st.none() | st.integers(-(2**31), 2**31)),
        stdout=draw(st.none() | st.binary(max_size=30) | text.map(str.encode)),
        stderr=draw(st.none() | st.binary(max_size=30)),
        scrubbed_digest=draw(maybe_text),
        raw_digest=draw(maybe_text),
        timed_out=draw(st.booleans()),
        truncated=draw(st.booleans()),
        live_only=draw(st.booleans()),
        note=draw(maybe_text),
        error=draw(maybe_text),
        ran=tuple(draw(st.lists(text, max_size=3))),
        ran_after=tuple(draw(st.lists(text, max_size=3))),
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any trace."""
    messages = draw(st.dictionaries(st.sampled_from(names), bodies, max_size=8))
    indices = sorted(draw(st.sets(st.integers(0, 50), max_size=6)))
    made = tuple(draw(steps(index, sorted(messages))) for index in indices)
    return Trace(rollout=ROLLOUT, steps=made, messages=messages, log=draw(text))


@given(traces())
def test_rows_lose_nothing(trace: Trace) -> None:
    rows = rows_of(trace)
    assert trace_of(ROLLOUT, rows) == trace
    assert digest_of_rows(ROLLOUT, rows_of(trace_of(ROLLOUT, rows))) == digest_of_rows(ROLLOUT, rows)


@given(trace=traces())
def test_a_file_loses_nothing(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    path = tmp_path_factory.mktemp("trace") / "one.parquet"
    file = TraceFile(trace)
    file.write(path, "task", 7)
    reader = TraceReader(path)
    rows = reader.rows(ROLLOUT)
    reader.close()
    assert trace_of(ROLLOUT, rows) == trace
    assert digest_of_rows(ROLLOUT, rows) == file.digest


@given(traces(), traces())
def test_different_traces_have_different_digests(one: Trace, other: Trace) -> None:
    assert one == other or TraceFile(one).digest != TraceFile(other).digest


def test_the_fields_of_a_trace_are_known() -> None:
    """A field added to Step lands in `exact` by itself; one added to Trace needs a sort of row."""
    assert set(Trace.model_fields) == {"rollout", "steps", "messages", "log"}


def test_rows_grow_with_what_was_said_not_with_the_context() -> None:
    def listed(length: int) -> int:
        said = {f"{number:064x}": {"n": number} for number in range(length)}
        order = list(said)
        made = [Step(index=n, kind=StepKind.LLM, messages=tuple(order[: n + 1])) for n in range(length)]
        rows = rows_of(Trace(rollout=ROLLOUT, steps=tuple(made), messages=said))
        return sum(len(row["messages"]) for row in rows if row["row"] == "step")

    assert listed(400) == 400 and listed(100) == 100


def test_interleaved_conversations_each_continue_their_own() -> None:
    said = {name: {"name": name} for name in names}
    one, other = names[:6], names[6:]
    made = []
    for turn in range(1, 7):
        made.append(Step(index=2 * turn, kind=StepKind.LLM, messages=tuple(one[:turn])))
        made.append(Step(index=2 * turn + 1, kind=StepKind.LLM, messages=tuple(other[:turn])))
    trace = Trace(rollout=ROLLOUT, steps=tuple(made), messages=said)
    rows = rows_of(trace)
    assert max(len(row["messages"]) for row in rows if row["row"] == "step") == 1
    assert trace_of(ROLLOUT, rows) == trace


def test_a_trace_that_does_not_hold_what_it_names_is_refused() -> None:
    step = Step(index=0, kind=StepKind.LLM, messages=("0" * 64,))
    with pytest.raises(HtError, match="does not hold it"):
        TraceFile(Trace(rollout=ROLLOUT, steps=(step,), messages={}))
    with pytest.raises(HtError, match="two steps of one index"):
        TraceFile(Trace(rollout=ROLLOUT, steps=(step, step), messages={"0" * 64: {}}))


def test_a_file_is_readable_without_this_project(tmp_path: Path) -> None:
    """The three questions that docs/ answers, asked with pyarrow alone."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    said = {"0" * 64: {"role": "user", "content": "go"}}
    trace = Trace(
        rollout=ROLLOUT,
        messages=said,
        steps=(
            Step(index=0, kind=StepKind.LLM, messages=("0" * 64,), content="run it", usage=Usage(completion=3)),
            Step(index=1, kind=StepKind.RUN, action='{"run":"false"}', exit_code=1, stdout=b"caf\xc3\xa9", stderr=b""),
        ),
    )
    TraceFile(trace).write(tmp_path / "t.parquet", "task-0", 1)
    table = pq.read_table(tmp_path / "t.parquet")
    failed = table.filter(pc.not_equal(table["exit_code"], 0))
    assert failed.select(["task", "step", "action", "text"]).to_pylist() == [
        {"task": "task-0", "step": 1, "action": '{"run":"false"}', "text": "café"}
    ]
    assert pc.sum(table["completion_tokens"]).as_py() == 3
    assert table.filter(pc.equal(table["row"], "message"))["text"].to_pylist() == ['{"role":"user","content":"go"}']
