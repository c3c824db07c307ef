"""What the gate asks: prompts of several lengths, with shared and distinct beginnings, and a tool call.

The texts are lists of plain words: what comes next is uncertain, so close calls between tokens are frequent, and a
change in the last bit of a logit has a chance to show.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.gate import Probe
from harnesstrain.core.records.llm import LlmRequest, Sampling
from harnesstrain.llm.base import Model

Messages = tuple[dict[str, Any], ...]

RESERVE = 32
"""Tokens of the context that no prompt fills, beside its completion."""

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "Run a shell command and return its output.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command line."}},
            "required": ["command"],
        },
    },
}

_TEXT = (
    "river stone window morning letter market engine garden winter table silver bridge paper "
    "forest candle station harbour number yellow island doctor kitchen thunder mirror pencil ladder "
    "summer village copper signal basket mountain library feather circle hammer valley blanket "
    "planet corner button meadow lantern cotton ticket pocket barrel castle orange rabbit shadow "
    "travel anchor record saddle temple velvet wagon zebra apple bottle camera dinner"
)
_WORDS = tuple(_TEXT.split())

_QUESTIONS = (
    "Which of these words names the largest thing, and why?",
    "Write one sentence that uses three of these words.",
    "Which of these words would a sailor use most often?",
)


class Depth(Record):
    """How much is asked."""

    name: str
    max_tokens: int
    """Completion tokens of a probe."""
    rounds: int
    """Times every probe is asked at each concurrency."""
    boundaries: tuple[int, ...]
    """Prompt tokens at and around the edges of chunks of 64."""
    family: int
    """Tokens of the beginning that several prompts share."""
    long: tuple[tuple[float, int], ...]
    """Long prompts: the part of the context they fill, and their tokens at most."""
    abort: bool = False
    """Whether a request is given up in the middle of each wave, where the engine can give one up."""
    restart: bool = True
    """Whether to compare across a restart where the engine runs in this process."""


DEPTHS = {
    depth.name: depth
    for depth in (
        Depth(name="quick", max_tokens=8, rounds=1, boundaries=(65,), family=100, long=(), restart=False),
        Depth(name="standard", max_tokens=8, rounds=1, boundaries=(64, 65), family=100, long=((0.1, 320),)),
        Depth(
            name="thorough",
            max_tokens=64,
            rounds=3,
            boundaries=(63, 64, 65, 128, 129, 323),
            family=135,
            long=((0.25, 2000), (0.75, 6000)),
            abort=True,
        ),
    )
}


def probes(model: Model, sampling: Sampling, depth: Depth) -> tuple[Probe, ...]:
    """The probes for a model, shortest first.  `sampling` is the one that will be measured with; each probe has a
    seed of its own.  What the context cannot hold is left out.
    """
    room = model.endpoint().context_length - depth.max_tokens - RESERVE
    asked: list[tuple[str, Messages, bool]] = [("short", _user("Say in one sentence what a harness is."), False)]
    for size in depth.boundaries:
        asked.append((f"boundary {size}", _fitted(model, min(size, room), _listing(f"boundary {size}")), False))
    asked += [(name, messages, False) for name, messages in _family(model, min(depth.family, room // 2))]
    asked.append(("tool call", _user("Use the tool to list the files in /srv."), True))
    for part, most in depth.long:
        size = min(int(part * room), most)
        if size > depth.family + 64:
            asked.append((f"long {size}", _fitted(model, size, _listing(f"long {size}")), False))
    return tuple(
        Probe(
            name=name,
            request=LlmRequest(
                messages=messages,
                tools=(TOOL,) if tool else (),
                sampling=sampling.model_copy(
                    update={"max_tokens": depth.max_tokens, "seed": sampling.seed + index, "stop": ()}
                ),
            ),
        )
        for index, (name, messages, tool) in enumerate(asked)
    )


def _family(model: Model, size: int) -> list[tuple[str, Messages]]:
    """Prompts that begin alike, and one that goes on where another ended."""

    def system(count: int) -> Messages:
        return ({"role": "system", "content": f"You know these words: {_words('family', count)}."},)

    begin = _fitted(model, size, system)
    members = [(f"family {number + 1}", begin + _user(text)) for number, text in enumerate(_QUESTIONS[:2])]
    reply: dict[str, Any] = {"role": "assistant", "content": "The mountain, because it can be seen from afar."}
    grown = members[0][1] + (reply,) + _user(_QUESTIONS[2])
    return [*members, ("family grown", grown)]


def _listing(seed: str) -> Callable[[int], Messages]:
    return lambda count: _user(f"Go on with this list of words: {_words(seed, count)}")


def _user(text: str) -> Messages:
    return ({"role": "user", "content": text},)


def _words(seed: str, count: int) -> str:
    return " ".join(random.Random(seed).choices(_WORDS, k=count))


def _fitted(model: Model, size: int, build: Callable[[int], Messages]) -> Messages:
    """The longest of `build(0)`, `build(1)` … that has at most `size` prompt tokens; at least `build(1)`."""
    low, high = 1, max(1, size)
    while low < high:
        middle = (low + high + 1) // 2
        if model.count_tokens(build(middle)) <= size:
            low = middle
        else:
            high = middle - 1
    return build(low)
