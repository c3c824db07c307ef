"""What each repository's test runner says, as `{test id: result}`.

The ids are those of the published lists of tests, so they are cut and shortened as the lists are: most by the first
space, some with the folders of a path parameter left out.  The last word about an id counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.swebench.django import django_results


class Result(StrEnum):
    """How one test ended."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    ERROR = "ERROR"
    SKIPPED = "SKIPPED"
    XFAIL = "XFAIL"
    MISSING = "MISSING"
    """The log says nothing of it.  Never in a log."""

    @property
    def passing(self) -> bool:
        """Whether it counts as passed."""
        return self in (Result.PASSED, Result.XFAIL)


Parser = Callable[[str], dict[str, Result]]

_WORDS = {result.value: result for result in Result if result is not Result.MISSING}
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]|\[\d+m")
_CONTROL = dict.fromkeys(range(1, 32))
_DASH = " - "
_COUNT = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class Pytest:
    """How a repository's pytest reports, and how its published ids are written.  Called with a log."""

    whole: bool = False
    """An id goes on to the end of the line (or to the reason), not to the first space."""
    plain: bool = False
    """Colours and control characters are left out first."""
    after: str = ""
    """A result may follow its id too: as the line's `last` word, or as its `second`."""
    short_paths: bool = False
    """A parameter that is an absolute path is written as `/` and its last part."""
    reads: frozenset[str] = frozenset(_WORDS)
    """The results that the published lists were made from; others count as no result."""
    renames: tuple[tuple[str, str], ...] = ()
    """Texts that older and newer versions print differently: (printed, listed)."""

    def __call__(self, log: str) -> dict[str, Result]:
        """The results in `log`."""
        found: dict[str, Result] = {}
        for line in log.split("\n"):
            named = self._named(self._cleaned(line))
            if named is not None:
                found[named.test] = named.result
        return found

    def _cleaned(self, line: str) -> str:
        if self.plain:
            line = _COLOUR.sub("", line).translate(_CONTROL)
        for printed, listed in self.renames:
            line = line.replace(printed, listed)
        return line

    def _named(self, line: str) -> _Named | None:
        words = line.split()
        if len(words) < 2:
            return None
        if line.startswith(words[0]) and words[0] in self.reads:
            result = _WORDS[words[0]]
            if result is Result.SKIPPED and _COUNT.fullmatch(words[1]):
                return None  # pytest's own summary of skipped tests: a count and a place, no test
            return _Named(self._id(words[1:], result), result)
        if self.after == "last" and words[-1] in _WORDS:
            return _Named(" ".join(words[:-1]), _WORDS[words[-1]])
        if self.after == "second" and words[1] == Result.PASSED and len(words) > 2:
            return _Named(words[0], Result.PASSED)
        return None

    def _id(self, words: list[str], result: Result) -> str:
        if self.whole:
            text = " ".join(words)
            return text if result is Result.PASSED else _without_reason(text)
        return _short_path(words[0]) if self.short_paths else words[0]


@dataclass(frozen=True)
class _Named:
    test: str
    result: Result


def _without_reason(text: str) -> str:
    """`text` up to the first ` - ` that is no part of a parameter."""
    depth = start = 0
    while (at := text.find(_DASH, start)) >= 0:
        depth += text.count("[", start, at) - text.count("]", start, at)
        if depth <= 0:
            return text[:at]
        start = at + 1
    return text.split(_DASH, 1)[0]


def _short_path(test: str) -> str:
    start, end = test.find("["), test.rfind("]")
    if not 0 <= start < end:
        return test
    parameter = test[start + 1 : end]
    if parameter.startswith("/") and not parameter.startswith("//") and "*" not in parameter:
        parameter = "/" + parameter.rpartition("/")[2]
    return f"{test[:start]}[{parameter}]"


_SYMPY_ENDS = {" ok": Result.PASSED, " F": Result.FAILED, " E": Result.ERROR}


def _sympy(log: str) -> dict[str, Result]:
    """SymPy's own runner: `test_name ok`; failures once more as a heading `____ file.py:test_name ____`."""
    found: dict[str, Result] = {}
    for line in log.split("\n"):
        text = line.strip()
        if text.startswith("test_"):
            for end, result in _SYMPY_ENDS.items():
                if text.endswith(end):
                    found[text.split()[0]] = result
        elif text.startswith("__") and text.endswith("__") and ".py:" in text:
            found[text.strip("_ ")] = Result.FAILED
    return found


def _django(log: str) -> dict[str, Result]:
    return {test: Result(word) for test, word in django_results(log).items()}


_PLAIN = Pytest()
_LATER = Pytest(whole=True, plain=True, after="last")
_SHORT = Pytest(short_paths=True)

PARSERS: dict[str, Parser] = {
    "astropy/astropy": _LATER,
    "django/django": _django,
    "matplotlib/matplotlib": Pytest(renames=(("MouseButton.LEFT", "1"), ("MouseButton.RIGHT", "3"))),
    "mwaskom/seaborn": Pytest(after="second", reads=frozenset({Result.PASSED, Result.FAILED})),
    "pallets/flask": _PLAIN,
    "psf/requests": _SHORT,
    "pydata/xarray": _PLAIN,
    "pylint-dev/pylint": _SHORT,
    "pytest-dev/pytest": _PLAIN,
    "scikit-learn/scikit-learn": _LATER,
    "sphinx-doc/sphinx": _LATER,
    "sympy/sympy": _sympy,
}
"""By repository."""


def parser_of(repo: str) -> Parser:
    """The parser of a repository's logs.  Raises ConfigError when there is none."""
    try:
        return PARSERS[repo]
    except KeyError:
        known = ", ".join(PARSERS)
        raise ConfigError(f"no parser for the logs of '{repo}'", hint=f"known: {known}") from None
