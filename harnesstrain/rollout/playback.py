"""A recorded rollout again, with the replies and observations from its record: does the harness do the same?

A fresh harness process, no model, no sandbox.  Everything it issues is compared with the record: requests by their
digest, actions, notes and the submission by their text, and how it ended.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from harnesstrain.core.errors import (
    BadRequest,
    ConfigError,
    ContextOverflow,
    LlmFailure,
    PolicyFailure,
    SandboxFailure,
)
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.cache import StepEntry
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply, ToolCall, Usage
from harnesstrain.core.records.rollout import Outcome, Rollout, Source, Step, StepKind, Trace
from harnesstrain.core.records.run import Regime
from harnesstrain.core.records.task import Task
from harnesstrain.harness.process import HarnessProcess
from harnesstrain.llm.cached import CachedModel
from harnesstrain.llm.requests import request_key, tools_digest
from harnesstrain.rollout.action import Action, from_record
from harnesstrain.rollout.bench import Bench, Cell
from harnesstrain.rollout.dialogue import Dialogue
from harnesstrain.rollout.evidence import SHOWN, unified
from harnesstrain.rollout.place import Done
from harnesstrain.rollout.recorder import ACTIONS, Recorder
from harnesstrain.rollout.reexecution import recorded_result
from harnesstrain.rollout.staging import DRIVEN

LAST_WORDS = 5.0
"""Seconds a harness gets to exit after its episode is over."""

PARTED = "went another way"
"""How an episode ends that issued something that is not next in the record."""

OVERLAP = 8
"""Model calls of one harness that may be under way at once."""

Count = Callable[[Sequence[Mapping[str, Any]]], int]
"""Prompt tokens of a conversation."""


class Played(Record):
    """What playing a rollout back showed.  For a fork: where, what, both sides."""

    result: Certified
    """exact, forked, or no_chain: nothing was exchanged."""
    played: int = 0
    """Exchanges that were issued again, in order."""
    step: int | None = None
    what: str | None = None
    """What differs: a request's message, tools or sampling; an action, a note, a submission; the ending."""
    recorded: str | None = None
    issued: str | None = None
    diff: str | None = None


@dataclass(frozen=True)
class Recorded:
    """A rollout to be played back, and what it was measured with."""

    rollout: Rollout
    trace: Trace
    regime: Regime
    endpoint: Endpoint
    workdir: str
    """Where commands started."""


class Parted(PolicyFailure):
    """The harness issued something that is not next in the record."""


def play(cell: Cell, recorded: Recorded, count: Count, *, isolated: bool = True) -> Played:
    """Play one rollout back.  `count`: counts tokens, for a harness that asks.

    A harness that ends before it issues anything, though it did not when it was recorded, is started once more: that is
    nothing which it does with replies.  Raises SandboxFailure when it ends so again or there is no jail, Prerequisite,
    and whatever `count` raises.
    """
    if not recorded.trace.steps:
        return Played(result=Certified.NO_CHAIN)
    found = _played(cell, recorded, count, isolated=isolated) or _played(cell, recorded, count, isolated=isolated)
    if found is None:
        message = f"the harness cannot be played back on {cell.task.name}: it ends before it asks or does anything"
        raise SandboxFailure(
            message, hint="`ht doctor` says whether the jail works; `ht harness check` tries the harness"
        )
    return found


def _played(cell: Cell, recorded: Recorded, count: Count, *, isolated: bool) -> Played | None:
    """One playback; None when the harness crashed before it issued anything."""
    model = _Model(recorded, cell.seed, count)
    bench = Bench(
        model=CachedModel(model, None),
        sandbox=cast(Any, None),  # nothing is executed
        regime=recorded.regime,
        isolated=isolated,
    )
    place = _Place(recorded)
    recorder = Recorder()
    messages: dict[str, Any] = {}
    ending = "not begun"
    for task in _begun(cell.task, recorded.trace.steps):
        dialogue = Dialogue(replace(cell, task=task), bench, place, recorder)
        try:
            ending = _converse(cell, dialogue, isolated=isolated)
        finally:
            dialogue.close()
        messages |= dialogue.conversations.kept
        if ending == PARTED:
            break
    issued = {step.index: _issued(step, messages) for step in recorder.steps()}
    issued |= place.strangers
    for stranger in model.strangers:  # a request that got no reply left its index free
        issued[next(index for index in range(len(issued) + 1) if index not in issued)] = stranger
    if not issued and ending.startswith("crashed"):
        return None
    return _compared(recorded, [issued[index] for index in sorted(issued)], ending)


def _begun(task: Task, steps: Sequence[Step]) -> list[Task]:
    """The task, or each of its steps that the harness was started for."""
    begun = sum(step.kind is StepKind.STAGE and step.exit_code == 0 for step in steps)
    return [task.at(number) for number in range(min(begun, len(task.steps)))] if task.steps else [task]


def _converse(cell: Cell, dialogue: Dialogue, *, isolated: bool) -> str:
    """Let the harness work; returns how it ended, in words."""
    try:
        process = HarnessProcess.start(cell.worktree, cell.manifest, isolated=isolated)
    except ConfigError as error:
        return f"crashed: {error.message}"
    try:
        dialogue.hold(process)
        ended = process.finish(0 if dialogue.over is not None else LAST_WORDS)
    except Parted:
        return PARTED
    except PolicyFailure as failure:
        return f"crashed: {failure.message}"
    finally:
        process.kill()
    if dialogue.submitted:
        return "submitted"
    if dialogue.over is not None:
        return f"ended by {dialogue.over.value}"
    if ended.code != 0:
        last = (ended.log.strip().splitlines() or ["no message"])[-1]
        return f"crashed: exit {ended.code}: {last}"
    return "ended without a submission"


class _Model:
    """Answers a request with what was recorded for it, each reply once."""

    def __init__(self, recorded: Recorded, seed: int, count: Count) -> None:
        self._endpoint = recorded.endpoint.model_copy(update={"deterministic": recorded.regime.deterministic})
        self._sample = None if recorded.regime.deterministic else seed
        self._count = count
        self._lock = threading.Lock()
        self._left: dict[str, deque[Step]] = {}
        for step in recorded.trace.steps:
            if step.kind is StepKind.LLM and step.request_digest is not None:
                self._left.setdefault(step.request_digest, deque()).append(step)
        self.strangers: list[_Issued] = []
        """Requests that are not in the record, in order of arrival."""

    def endpoint(self) -> Endpoint:
        return self._endpoint

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        return self._count(messages)

    def close(self) -> None:
        """Nothing is held."""

    def complete(self, request: LlmRequest) -> Reply:
        key = request_key(self._endpoint.fingerprint, request, sample=self._sample)
        with self._lock:
            left = self._left.get(key)
            if not left:
                tools = tools_digest(request.tools) if request.tools else None
                self.strangers.append(_Issued(StepKind.LLM, key, messages=request.messages, tools=tools))
                raise Parted("a request that was not recorded")
            step = left.popleft()
        if step.error is not None:
            raise _failure(step.error)
        return _reply(step)


class _Place:
    """Answers an action with what was recorded for it, in order."""

    def __init__(self, recorded: Recorded) -> None:
        self._workdir = recorded.workdir
        self._left = deque(step for step in recorded.trace.steps if step.kind in ACTIONS)
        self.strangers: dict[int, _Issued] = {}
        """Actions that are not next in the record, by the index of their step."""

    def workdir(self) -> str:
        return self._workdir

    def prepare(self) -> None:
        """Nothing is opened."""

    def act(self, step: int, action: Action, remaining: float) -> Done:
        if not self._left or from_record(self._left[0]).digest != action.digest:
            self.strangers[step] = _acted(action)
            raise Parted("an action that is not next in the record")
        known = self._left.popleft()
        if known.exit_code is None:
            return Done(None, Source.CACHE)
        result = recorded_result(known)
        name = _errno(known.error) if known.error is not None else None
        entry = StepEntry(
            result=result,
            scrubbed=known.scrubbed_digest or "",
            raw=known.raw_digest or "",
            rules="",
            errno=name,
            message=known.error,
        )
        return Done(entry, Source.CACHE)


@dataclass(frozen=True, eq=False)
class _Issued:
    """One thing that a harness issued, in the form in which it is compared."""

    kind: StepKind
    key: str
    """What must be equal."""
    text: str = ""
    """For people."""
    messages: Sequence[Any] = ()
    tools: str | None = None


def _issued(step: Step, messages: Mapping[str, Any]) -> _Issued:
    if step.kind is StepKind.LLM:
        said = [messages.get(digest, {}) for digest in step.messages]
        return _Issued(step.kind, step.request_digest or "", messages=said, tools=step.tools)
    if step.kind in ACTIONS:
        return _acted(from_record(step))
    return _Issued(step.kind, json.dumps(step.note), step.note or "")


def _acted(action: Action) -> _Issued:
    rest = {key: value for key, value in action.spec.items() if key not in ("kind", "command", "path")}
    more = {key: value for key, value in rest.items() if value is not None}
    text = str(action.spec.get("command") or action.spec.get("path"))
    return _Issued(action.kind, action.digest, f"{text}\n{json.dumps(more)}" if more else text)


def _compared(recorded: Recorded, issued: Sequence[_Issued], ending: str) -> Played:
    """The first difference, if there is one.

    What is done and handed in is a sequence.  Model calls and notes may overlap, and arrive in any order among the next
    few.
    """
    steps = [step for step in recorded.trace.steps if step.kind not in DRIVEN]
    known = [_issued(step, recorded.trace.messages) for step in steps]
    left = list(issued)
    for place, before in enumerate(known):
        ahead = left[:OVERLAP]
        if before.kind not in (StepKind.LLM, StepKind.NOTE):
            ahead = [one for one in ahead if one.kind not in (StepKind.LLM, StepKind.NOTE)][:1]
        match = next((one for one in ahead if (one.kind, one.key) == (before.kind, before.key)), None)
        if match is None:
            ours = {(one.kind, one.key) for one in known}
            new = next((one for one in left if (one.kind, one.key) not in ours), left[0] if left else None)
            return _fork(steps[place].index, before, new, ending)
        left.remove(match)
    if left:
        return _fork(len(known), None, left[0], ending)
    crashed = recorded.rollout.outcome is Outcome.POLICY_CRASH
    if crashed != ending.startswith("crashed"):
        was = f"crashed: {recorded.rollout.detail}" if crashed else recorded.rollout.outcome.value
        shown = unified(was, ending, seen="issued")
        return _forked(len(known), "the ending", was, ending, shown, len(known))
    return Played(result=Certified.EXACT, played=len(known))


def _fork(index: int, before: _Issued | None, after: _Issued | None, ending: str) -> Played:
    if before is not None and after is not None and before.kind is after.kind is StepKind.LLM:
        what, left, right = _requests(before, after)
    else:
        kind = (after or before or _Issued(StepKind.NOTE, "")).kind
        what = kind.value if before is None or after is None or before.kind is after.kind else "another kind of step"
        left, right = _text(before, "(nothing more)"), _text(after, f"(nothing more: {ending})")
    return _forked(index, what, left, right, unified(left, right, seen="issued"), index)


def _forked(step: int, what: str, recorded: str, issued: str, diff: str, played: int) -> Played:
    return Played(
        result=Certified.FORKED,
        played=played,
        step=step,
        what=what,
        recorded=recorded[:SHOWN],
        issued=issued[:SHOWN],
        diff=diff,
    )


def _requests(before: _Issued, after: _Issued) -> tuple[str, str, str]:
    """What differs between two requests, and both sides of that."""
    for number in range(max(len(before.messages), len(after.messages))):
        pair = [side.messages[number] if number < len(side.messages) else None for side in (before, after)]
        if pair[0] != pair[1]:
            left, right = (_message(one) for one in pair)
            return f"request: message {number + 1}", left, right
    if before.tools != after.tools:
        return "request: tools", f"tools {before.tools}", f"tools {after.tools}"
    return "request: sampling or tool choice", before.key, after.key


def _text(one: _Issued | None, absent: str) -> str:
    if one is None:
        return absent
    if one.kind is StepKind.LLM:
        return f"llm: {len(one.messages)} messages, the last: {_message(one.messages[-1] if one.messages else None)}"
    return f"{one.kind.value}: {one.text}"


def _message(message: Any) -> str:
    if message is None:
        return "(no message)"
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        rest = {key: value for key, value in message.items() if key not in ("role", "content")}
        more = f"\n{json.dumps(rest, ensure_ascii=False)}" if rest else ""
        return f"{message.get('role')}: {content}{more}"
    return json.dumps(message, ensure_ascii=False, indent=1)


def _reply(step: Step) -> Reply:
    return Reply(
        content=step.content or "",
        reasoning=step.reasoning or "",
        tool_calls=tuple(ToolCall(**call) for call in json.loads(step.tool_calls or "[]")),
        finish_reason=step.finish_reason or "stop",
        usage=step.usage or Usage(),
        duration=step.duration,
    )


def _failure(error: str) -> LlmFailure:
    """The failure that a harness was told, from its record `kind: message`."""
    kind, _, message = error.partition(": ")
    return ContextOverflow(message) if kind == ContextOverflow.kind else BadRequest(message)


def _errno(message: str) -> str:
    """The name of a file error, from its message `path: what the system says`."""
    said = message.rpartition(": ")[2]
    return next((name for code, name in errno.errorcode.items() if os.strerror(code) == said), "EINVAL")
