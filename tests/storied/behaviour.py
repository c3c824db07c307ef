"""What a version does on a task: a trace and an outcome, the same for the same abilities, tasks and sizes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from harnesstrain.core.digests import digest
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Outcome, Rollout, Source, Step, StepKind, Trace
from harnesstrain.core.records.run import Run
from tests.storied.plot import IDLE, UNSEEN
from tests.storied.tasks import Need

SYSTEM = "You solve tasks in a shell. Answer with one command."
COMMANDS = (
    "ls -la",
    "cat notes.txt",
    "grep -c ERROR server.log",
    "python3 fix.py",
    "sed -n 1,20p app.py",
    "wc -l *.csv",
)
OUTPUTS = (
    "total 12\n-rw-r--r-- 1 root root  431 server.log\n-rw-r--r-- 1 root root   88 notes.txt",
    "port = 8080\nhost = db-01.example.org\nretries = 3",
    "Traceback (most recent call last):\n  File \"fix.py\", line 7, in <module>\nKeyError: 'total'",
    "17",
    "name,team,active\nada,core,yes\ngrace,ops,no",
)


@dataclass(frozen=True)
class Version:
    """A harness version: its commit and what it can do, in the order in which it learnt it."""

    commit: str
    abilities: tuple[str, ...] = ()
    base: str | None = None
    """The version against which its difference is traced."""

    added: tuple[str, ...] = ()
    """Of `abilities`, what the last change added."""
    file: str = ""
    """What it changed."""


@dataclass(frozen=True)
class Course:
    """How long rollouts are, and how hostile their text is."""

    steps: int
    even: bool
    """Every rollout has so many steps; else between half of them and all."""
    hostile: str = ""
    words: int = 40
    """Words of an observation."""


def shows(ability: str, need: Need) -> bool:
    """Whether the harness does anything else on this task because of the ability."""
    if ability == UNSEEN[0]:
        return False
    if ability in {name for name, _ in IDLE}:
        return hashlib.sha256(f"{ability}{need.name}".encode()).digest()[0] < 90
    if ability == need.ability or need.broken_by(ability):
        return True
    return hashlib.sha256(f"{ability} {need.name}".encode()).digest()[0] < 60


def outcome(version: Version, need: Need) -> tuple[Outcome, str | None]:
    """How the version ends on the task."""
    able = need.ability is None or need.ability in version.abilities
    if able and not any(need.broken_by(one) for one in version.abilities):
        return Outcome.SOLVED, None
    kind, _, reason = need.failure.partition(":")
    return Outcome(kind), reason or None


@dataclass(frozen=True)
class Played:
    """One rollout and its trace."""

    rollout: Rollout
    trace: Trace


def play(
    run: Run, version: Version, need: Need, seed: int, course: Course, before: Sequence[str] | None = None
) -> Played:
    """The version on the task.  `before`: abilities of the version against which cached exchanges are known."""
    shown = tuple(one for one in version.abilities if shows(one, need))
    known = None if before is None else tuple(one for one in before if shows(one, need))
    spread = hashlib.sha256(need.name.encode()).digest()[4] % (course.steps // 2 + 1)
    length = course.steps if course.even else course.steps // 2 + spread
    end, reason = outcome(version, need)
    acts = int(need.acts * length)
    story = _Telling(run, version, need, course, acts, shown, known)
    for number in range(length):
        story.exchange(number)
    if end in (Outcome.SOLVED, Outcome.FAILED_VERIFICATION):
        story.submit()
    return story.done(seed, end, reason)


class _Telling:
    """A conversation that grows by a reply and an observation a step."""

    def __init__(
        self,
        run: Run,
        version: Version,
        need: Need,
        course: Course,
        acts: int,
        shown: tuple[str, ...],
        known: tuple[str, ...] | None,
    ) -> None:
        self.run, self.version, self.need, self.course = run, version, need, course
        self.acts, self.shown, self.known = acts, shown, known
        self.messages: dict[str, dict[str, object]] = {}
        self.names: list[str] = []
        self.steps: list[Step] = []
        self.usage, self.time = Usage(), 0.0
        self.chain = self.requests = ""
        self.cached = self.replayed = self.valid = 0
        self._say("system", SYSTEM if acts or not shown else f"{SYSTEM} {_taught(shown)}")
        self._say("user", f"Task {need.name}: leave the answer in /app.{course.hostile}")

    def exchange(self, number: int) -> None:
        """One model call and one command."""
        acted = self.shown if number >= self.acts else ()
        served = self.known is not None and (number < self.acts or self.known == self.shown)
        if acted and number == self.acts and self.acts:
            self._say("user", _taught(acted) + self.course.hostile)
        source = Source.CACHE if served else Source.LIVE
        dice = hashlib.sha256(f"{self.need.name} {number} {acted}".encode()).digest()
        command = f"{COMMANDS[dice[0] % len(COMMANDS)]} # {number}{self.course.hostile}"
        reply = f"Next I look at part {number}.\n```sh\n{command}\n```"
        prompt = 60 + sum(len(str(self.messages[name]["content"])) for name in self.names[-6:]) // 4 + 30 * number
        spent = Usage(prompt=prompt, cached=prompt - 40, completion=len(reply) // 3)
        self.requests = digest([self.requests, self.names])
        ran: tuple[str, ...] = ()
        if number == self.acts and any(one in acted for one in self.version.added):
            ran = (f"{self.version.file}:{3 + dice[1] % 9}", "agent/prompt.py:12")
        self._step(
            kind=StepKind.LLM, source=source, duration=0.4 + dice[2] / 200, messages=tuple(self.names), content=reply,
            request_digest=self.requests, finish_reason="stop", usage=spent, ran=ran,
        )  # fmt: skip
        self._step(kind=StepKind.NOTE, note=json.dumps({"valid": dice[3] > 30}))
        self.valid += dice[3] > 30
        self.usage += spent
        self._say("assistant", reply)
        text = OUTPUTS[dice[4] % len(OUTPUTS)]
        output = (f"{text}\n" + " ".join(f"w{(dice[5] * n) % 97}" for n in range(self.course.words))).encode()
        output += self.course.hostile.encode()
        self.chain = digest([self.chain, command])
        seen = digest(output.decode())
        self._step(
            kind=StepKind.RUN, source=source, duration=dice[6] / 900, request_digest=self.chain,
            action=json.dumps({"kind": "run", "command": command, "cwd": None, "timeout": None, "stdin": None}),
            exit_code=1 if b"Traceback" in output else 0, stdout=output,
            stderr=b"", scrubbed_digest=seen, raw_digest=seen,
        )  # fmt: skip
        self.cached += served
        self.replayed += served
        self.time += 0.4 + dice[2] / 200 + dice[6] / 900
        self._say("user", f"exit code 0\n{output.decode()}")

    def submit(self) -> None:
        """The harness is done."""
        self._step(kind=StepKind.SUBMIT, action=json.dumps({"submit": True}))

    def done(self, seed: int, end: Outcome, reason: str | None) -> Played:
        """The rollout and its trace."""
        calls = sum(step.kind is StepKind.LLM for step in self.steps)
        details = {"failed_verification": "assert 17 == 18", "policy_crash": "KeyError: 'action'"}
        same = self.known is not None and self.known == self.shown
        rollout = Rollout(
            id=self.run.rollout_id(self.need.name, seed), run=self.run.id, task=self.need.name,
            task_digest=digest(self.need.name), seed=seed, outcome=end, reason=reason,
            detail=details.get(end.value, "") + self.course.hostile, reward=float(end is Outcome.SOLVED),
            llm_calls=calls, llm_cached=self.cached, actions=calls, actions_cached=self.replayed,
            executions=calls - self.replayed, grade_cached=same, from_caches=same, first_try_valid=self.valid,
            first_try_total=calls, usage=self.usage, recorded_time=round(self.time, 3), chain_digest=self.chain,
            requests_digest=self.requests, traced=self.version.base,
        )  # fmt: skip
        trace = Trace(rollout=rollout.id, steps=tuple(self.steps), messages=self.messages, log="started\n")
        return Played(rollout, trace)

    def _say(self, role: str, content: str) -> None:
        message: dict[str, object] = {"role": role, "content": content}
        name = digest(message)
        self.messages[name] = message
        self.names.append(name)

    def _step(self, **fields: object) -> None:
        self.steps.append(Step.model_validate({"index": len(self.steps), **fields}))


def _taught(abilities: Sequence[str]) -> str:
    return "Remember: " + "; ".join(f"mind the {one.replace('-', ' ')}" for one in abilities) + "."
