"""The table of what rollouts exchanged: steps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harnesstrain.core.errors import StoreCorrupt
from harnesstrain.core.records.rollout import Rollout, Step, latest_attempts
from harnesstrain.store.frames.measured import tokens
from harnesstrain.store.frames.reading import Reading
from harnesstrain.store.frames.shapes import Row, shape

if TYPE_CHECKING:
    from harnesstrain.store.tracefolder import RunTraces

STEPS = shape(
    "steps",
    "one exchange of a rollout: a model call or an action",
    """
    rollout            text   id of the rollout
    run                text   id of its run
    commit             text   harness version
    task               text   name of the task
    seed               int    seed of the cell
    attempt            int    attempt of the cell
    newest             bool   whether that attempt counts
    outcome            text   how the rollout ended
    step               int    from 0, in order
    kind               text   llm, run, read, write, note, submit, stage, verify
    source             text   live, cache or snapshot: where the answer came from
    seconds            float  recorded time, s
    messages           int    llm: messages in the request
    content            text   llm: the reply
    reasoning          text   llm: reasoning beside the reply
    tool_calls         text   llm: JSON list of {id, name, arguments}
    finish_reason      text   llm: stop, length, tool_calls …
    prompt_tokens      int    llm: tokens sent
    cached_tokens      int    llm: of these, not evaluated again
    completion_tokens  int    llm: tokens received
    reasoning_tokens   int    llm: of these, reasoning
    action             text   actions: the whole action, JSON
    command            text   run: the command
    path               text   read, write: the file
    exit_code          int    actions: exit code
    stdout             text   actions: what was printed; bytes that are no UTF-8 become U+FFFD
    stderr             text   the same of the error stream
    timed_out          bool   actions: whether the limit was reached
    truncated          bool   actions: whether the output was cut
    live_only          bool   actions: executed on every replay
    request            text   llm: digest of the request; actions: digest over the actions so far
    scrubbed           text   actions: digest of the scrubbed result
    raw                text   actions: digest of the raw result
    note               text   note: JSON, as the harness gave it
    valid              bool   note: its `valid`, whether the reply before was acted on without repair
    error              text   error that the harness was answered with
    ran                texts  changed code that ran since the step before: `file:line`
    ran_after          texts  the same of the time after the last step
    """,
)


def steps(reading: Reading) -> Iterator[Row]:
    """Rows of STEPS, rollout by rollout; one trace is in memory at a time.  Raises StoreCorrupt."""
    for run, found in reading.rollouts():
        newest = {rollout.id for rollout in latest_attempts(found)}
        wanted = [one for one in found if one.trace is not None and reading.rollout in (None, one.id)]
        with reading.store.traces(run.id) as traces:
            for rollout in wanted:
                whose = {
                    **rollout.model_dump(include={"run", "task", "seed", "attempt", "outcome"}),
                    "rollout": rollout.id,
                    "commit": run.commit,
                    "newest": rollout.id in newest,
                }
                for step in _exchanged(reading, traces, rollout):
                    yield whose | _step(step)


def _exchanged(reading: Reading, traces: RunTraces, rollout: Rollout) -> Sequence[Step]:
    try:
        return traces.trace(rollout).steps
    except StoreCorrupt as error:
        if reading.lost is None:
            raise
        reading.lost.append(error.message)
        return ()


def _step(step: Step) -> Row:
    action = _object(step.action)
    command, path = action.get("command"), action.get("path")
    row: Row = {
        "step": step.index,
        "kind": step.kind.value,
        "source": step.source.value,
        "seconds": step.duration,
        "messages": len(step.messages) if step.kind == "llm" else None,
        "content": step.content,
        "reasoning": step.reasoning,
        "tool_calls": step.tool_calls,
        "finish_reason": step.finish_reason,
        "action": step.action,
        "command": command if isinstance(command, str) else None,
        "path": path if isinstance(path, str) else None,
        "exit_code": step.exit_code,
        "stdout": step.stdout,
        "stderr": step.stderr,
        "request": step.request_digest,
        "scrubbed": step.scrubbed_digest,
        "raw": step.raw_digest,
        "note": step.note,
        "error": step.error,
        "ran": list(step.ran) or None,
        "ran_after": list(step.ran_after) or None,
    }
    if step.usage is not None:
        row |= tokens(step.usage)
    if step.action is not None:
        row |= {"timed_out": step.timed_out, "truncated": step.truncated, "live_only": step.live_only}
    if step.note is not None:
        valid = _object(step.note).get("valid")
        row["valid"] = valid if isinstance(valid, bool) else None
    return row


def _object(text: str | None) -> dict[str, Any]:
    """A JSON object; what is none, or no JSON, has no keys."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
