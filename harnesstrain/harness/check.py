"""Conformance: any harness against scripted models and environments; what it violates is listed.

The harness runs in its jail, from its real command.  A scenario is one difficulty (`scenarios.py`); a harness conforms
when it speaks valid protocol throughout and ends by itself: `submit`, or exit 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import PolicyFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.harness import Manifest
from harnesstrain.core.records.llm import Reply
from harnesstrain.harness import manifest as manifests
from harnesstrain.harness import protocol
from harnesstrain.harness.pipes import Silent
from harnesstrain.harness.process import Exit, HarnessLimits, HarnessProcess
from harnesstrain.harness.protocol import Call
from harnesstrain.harness.scenarios import SCENARIOS, Scenario
from harnesstrain.harness.wire import CallRefused, ErrorKind, answer, error_answer

PATIENCE = 20.0
"""Seconds a harness may stay silent."""

GRACE = 5.0
"""Seconds it gets to exit once its episode is over."""

MESSAGES = 500
"""Messages in one scenario, at most."""


class Violation(Record):
    """One thing a harness did wrong."""

    scenario: str
    rule: str
    """What a harness has to do."""
    detail: str = ""
    """What it did instead."""


def conformance(
    worktree: Path,
    *,
    isolated: bool = True,
    environment: Path | None = None,
    scenarios: Sequence[Scenario] = SCENARIOS,
    patience: float = PATIENCE,
) -> list[Violation]:
    """Every violation of the harness in `worktree`, in the order of the scenarios; empty when it conforms.

    Raises ConfigError (no usable manifest), Prerequisite (no jail).
    """
    manifest = manifests.load(worktree)
    found: list[Violation] = []
    for scenario in scenarios:
        found += _Trial(worktree, manifest, scenario, patience).run(isolated, environment)
        if any(violation.rule == STARTS for violation in found):
            break  # the rest would only say so again
    return found


STARTS = "start and call `initialize` first"
SPEAKS = "write nothing but JSON-RPC 2.0 requests to stdout, one per line"
KNOWN = "call only methods of the protocol, with valid params"
ONCE = "call `initialize` once"
UNIQUE = "give every request its own id"
LIVES = "stay in touch"
ENDS = "end by `submit` or exit 0"
LEAVES = "exit when the episode is over"
BOUNDED = "stop asking when the budget is over"


class _Trial:
    """One scenario."""

    def __init__(self, worktree: Path, manifest: Manifest, scenario: Scenario, patience: float) -> None:
        self._worktree = worktree
        self._manifest = manifest
        self._scenario = scenario
        self._patience = patience
        self._found: list[Violation] = []
        self._ids: set[Any] = set()
        self._completions = 0
        self._messages = 0
        self._over = False

    def run(self, isolated: bool, environment: Path | None) -> list[Violation]:
        limits = HarnessLimits(messages=MESSAGES)
        with HarnessProcess.start(
            self._worktree, self._manifest, isolated=isolated, limits=limits, environment=environment
        ) as process:
            try:
                self._converse(process)
            except Silent as silent:
                self._note(LIVES if self._messages else STARTS, silent.message)
            except PolicyFailure as failure:
                self._note(SPEAKS, failure.message)
            else:
                self._ending(process.finish(GRACE))
        return self._found

    def _converse(self, process: HarnessProcess) -> None:
        while not self._over and (message := process.receive(self._patience)) is not None:
            self._messages += 1
            try:
                call = protocol.read_call(message)
            except CallRefused as refused:
                self._note(KNOWN, refused.message)
                process.send(refused.answer())
                continue
            if call.id in self._ids:
                self._note(UNIQUE, f"id {call.id!r} came twice")
            self._ids.add(call.id)
            if self._messages == 1 and call.method != "initialize":
                self._note(STARTS, f"it called {call.method} first")
            if self._messages > 1 and call.method == "initialize":
                self._note(ONCE, "it came again")
            process.send(self._answer(call))
            if self._scenario.hang_up:
                return

    def _answer(self, call: Call) -> dict[str, Any]:
        params = call.params
        if isinstance(params, protocol.Initialize):
            return answer(call.id, protocol.initialize_result(_TASK))
        if isinstance(params, protocol.Complete):
            return self._complete(call, params)
        if isinstance(params, protocol.CountTokens):
            return answer(call.id, {"tokens": 10})
        if isinstance(params, protocol.Run):
            return answer(call.id, protocol.run_result(self._scenario.result))
        if isinstance(params, protocol.Read | protocol.Write) and self._scenario.content is None:
            message = f"{params.path}: no such file or directory"
            return error_answer(call.id, ErrorKind.FILE_FAULT, message, errno="ENOENT", path=params.path)
        if isinstance(params, protocol.Read):
            return answer(call.id, protocol.read_result(self._scenario.content or b""))
        self._over = isinstance(params, protocol.Submit)
        return answer(call.id, None)

    def _complete(self, call: Call, params: protocol.Complete) -> dict[str, Any]:
        number = self._completions
        self._completions += 1
        if number >= self._scenario.calls:
            if number >= self._scenario.calls + 5:
                self._note(BOUNDED, f"it asked {number - self._scenario.calls} times more")
                self._over = True
            reason = {"reason": "step_limit"}
            return error_answer(call.id, ErrorKind.EPISODE_OVER, "step_limit reached", **reason)
        said = self._scenario.say(number, params)
        if isinstance(said, Reply):
            return answer(call.id, protocol.complete_result(said, f"h{number + 1}"))
        return error_answer(call.id, said, f"scripted {said.value}")

    def _ending(self, ended: Exit) -> None:
        last = (ended.log.strip().splitlines() or ["no message on stderr"])[-1]
        if not self._messages:
            self._note(STARTS, f"it ended with exit code {ended.code}: {last}")
        elif ended.killed:
            self._note(LEAVES, f"it still ran {GRACE:g} seconds later")
        elif ended.code != 0:
            self._note(ENDS, f"exit code {ended.code}: {last}")

    def _note(self, rule: str, detail: str) -> None:
        if not any(violation.rule == rule for violation in self._found):
            self._found.append(Violation(scenario=self._scenario.name, rule=rule, detail=detail))


_TASK = protocol.TaskView(
    instruction="Write the word hello into the file greeting.txt, then submit.",
    workdir="/app",
    model="scripted",
    context_length=8192,
    budgets=protocol.BudgetView(steps=12, tokens=100_000, seconds=600.0, max_tokens=512),
)
