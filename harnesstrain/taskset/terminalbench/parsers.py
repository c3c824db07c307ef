"""What the tests of a task printed → which passed.  The five parsers of the format.

A name that failed once has failed, whatever is printed about it elsewhere: code under test prints to the same stream.
No result at all is no grade: the verifier broke, and that is never a 0 and never a pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.records.sandbox import Grade

ParserName = Literal["pytest", "swebench", "swelancer", "mlebench", "sweperf"]
PARSERS: tuple[str, ...] = get_args(ParserName)

_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_SUMMARY = re.compile("short test summary info", re.IGNORECASE)
_PASSING = ("PASSED", "XFAIL", "SKIPPED")
_FAILING = ("FAILED", "XPASS", "ERROR")
_VERDICT = re.compile(r"swe lancer (success|failure)", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """Results between two marks."""

    name: str
    start: str
    end: str
    passed: str
    """What stands between them when everything passed."""


_BLOCKS = {
    "swebench": Block("swebench", "SWEBench results starts here", "SWEBench results ends here", "PASSED"),
    "sweperf": Block("sweperf", "SWE-Perf results starts here", "SWE-Perf results ends here", "PASSED"),
    "mlebench": Block("mlebench", "MLEBench results starts here", "MLEBench results ends here", "ALL TESTS PASSED"),
}


class NoResults(VerifierFailure):
    """The tests printed nothing that their parser can read."""


def graded(parser: str, output: bytes) -> Grade:
    """Reward 1.0 when every test passed, else 0.0.  Raises NoResults where the output holds no result."""
    results = parse(parser, output.decode("utf-8", "replace"))
    return Grade(reward=1.0 if all(results.values()) else 0.0)


def parse(parser: str, text: str) -> dict[str, bool]:
    """Whether each test passed, by name; never empty.  Raises NoResults."""
    clean = _ESCAPE.sub("", text).replace("\r\n", "\n")
    found = _READERS[parser](clean)
    if not found:
        raise NoResults(
            f"the tests printed no result that the {parser} parser can read",
            hint="`ht tasks oracle` runs the reference solution; its output says what the tests did",
        )
    return found


def _pytest(text: str) -> dict[str, bool]:
    """Lines `STATUS path::name`, after the first summary's title."""
    parts = _SUMMARY.split(text, maxsplit=1)
    return _merged(_pytest_lines(parts[1])) if len(parts) == 2 else {}


def _pytest_lines(text: str) -> Iterable[tuple[str, bool]]:
    for line in text.splitlines():
        status, _, rest = line.strip().partition(" ")
        if not rest.strip() or status not in (*_PASSING, *_FAILING):
            continue
        if status == "FAILED":
            rest = rest.rpartition(" - ")[0] or rest
        yield rest.strip().split("::", maxsplit=1)[-1], status in _PASSING


def _block(block: Block) -> Callable[[str], dict[str, bool]]:
    marked = re.compile(f"{re.escape(block.start)}(.*?){re.escape(block.end)}", re.DOTALL)

    def read(text: str) -> dict[str, bool]:
        return _merged((block.name, found.strip() == block.passed) for found in marked.findall(text))

    return read


def _swelancer(text: str) -> dict[str, bool]:
    return _merged(("swelancer", word.lower() == "success") for word in _VERDICT.findall(text))


def _merged(results: Iterable[tuple[str, bool]]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, passed in results:
        found[name] = found.get(name, True) and passed
    return found


_READERS: Mapping[str, Callable[[str], dict[str, bool]]] = {
    "pytest": _pytest,
    "swelancer": _swelancer,
    **{name: _block(block) for name, block in _BLOCKS.items()},
}
