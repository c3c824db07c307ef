"""The synthetic workload: what the scripted model says and what a scripted environment prints.

Every text is a function of the seed, the task and the step, so that all who are measured get the same decisions and
the same bytes.  A marker `[[task NAME action N]]` stands in every observation; the model answers the last one it sees
with action N + 1, and submits after the last action.  What an environment is in after N actions is N.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harnesstrain.core.records.llm import LlmRequest

_WORDS = (
    "alpha archive branch buffer cache client commit config cursor decode driver encode failed filter handle header "
    "import index label layer lookup module object offset option parse passed queue record report result schema "
    "segment server socket source stream string table target thread token update value vector warning"
)
WORDS = _WORDS.split()
NOISE = 170
"""Bytes of an observation that differ each time, about."""
MARKER = re.compile(r"\[\[task (\S+) action (\d+)\]\]")


@dataclass(frozen=True)
class Shape:
    """Sizes in bytes and counts."""

    tasks: int
    steps: int
    """Environment actions of a rollout."""
    observation: int = 2000
    command: int = 200
    reasoning: int = 400
    instruction: int = 1200

    @property
    def names(self) -> tuple[str, ...]:
        """The tasks' names."""
        return tuple(f"task-{number:04d}" for number in range(self.tasks))

    def script(self) -> str:
        """The rules file of the scripted engine: a Python program."""
        return (
            "from tests.bench.workload import Shape, answer\n\n"
            f"SHAPE = Shape(**{asdict(self)!r})\n"
            "settings = {'context_length': 1_000_000_000, 'max_running': 64}\n\n\n"
            "def reply(request):\n    return answer(SHAPE, request)\n"
        )


@functools.lru_cache(maxsize=100_000)
def text(name: str, size: int) -> str:
    """`size` characters that look like the log of a build; always the same for the same name."""
    chance = random.Random(name)
    lines, length = [], 0
    while length <= size:
        words = chance.choices(WORDS, k=9)
        lines.append(f"{words[0]}/{words[1]}.py:{chance.randrange(900)}: {' '.join(words[2:])}")
        length += len(lines[-1]) + 1
    return "\n".join(lines)[:size]


def marker(task: str, action: int) -> str:
    """What tells the model where it is."""
    return f"[[task {task} action {action}]]"


def instruction(shape: Shape, task: str) -> str:
    """What the harness is asked to do."""
    return f"{marker(task, 0)}\n{text(f'{task} instruction', shape.instruction)}\n"


def command(shape: Shape, task: str, action: int) -> str:
    """The command of an action.  In a real shell it counts itself and prints what a scripted environment would."""
    counted = f"n=$(($(cat .n 2>/dev/null)+1)); echo $n >.n; echo '[[task {task} action '$n']]'"
    listed = f"{counted}; seq -f 'line %06g' 1 {max(1, shape.observation // 12)}"
    return f"{listed} #{text(f'{task} {action} command', max(8, shape.command - len(listed) - 2))}".replace("\n", " ")


def observation(shape: Shape, task: str, action: int, turn: int) -> str:
    """What an action prints.  `turn` numbers all executions; what comes of it is noise."""
    noise = (
        f"=== 3 passed in {turn % 90 + 1}.{turn % 89:02d}s ===\n"
        f"<Worker object at 0x7f{turn:010x}>\n"
        f"log in /tmp/tmp.{turn:010d}/out.txt\n"
        f"run 0e37df36-f698-41e6-bb2c-{turn:012x} took {turn % 977 + 1} ms\n"
    )
    head = marker(task, action)
    signal = text(f"{task} {action} observation", shape.observation - len(head) - NOISE)
    return f"{head}\n{signal}\n{noise}"


def answer(shape: Shape, request: LlmRequest) -> dict[str, Any]:
    """What the model says: a call of `run`, or of `submit` when the actions are through."""
    task, action = place(request.messages)
    wanted = action + 1
    said = text(f"{task} {wanted} reasoning", shape.reasoning)
    if wanted > shape.steps:
        return {"content": said, "tool_calls": [{"name": "submit"}]}
    arguments = {"command": command(shape, task, wanted)}
    return {"content": said, "tool_calls": [{"name": "run", "arguments": arguments}]}


def place(messages: Sequence[dict[str, Any]]) -> tuple[str, int]:
    """Task and number of the last action that a conversation shows."""
    for message in reversed(messages):
        found = MARKER.findall(str(message.get("content") or ""))
        if found:
            return found[-1][0], int(found[-1][1])
    raise ValueError("the conversation has no marker")
