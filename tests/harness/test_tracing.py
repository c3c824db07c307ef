"""What to watch of a change: the statements it touches, where they take effect."""

from __future__ import annotations

import textwrap

import pytest

from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.harness.tracing import watches

SOURCE = '''\
"""A module."""
import re
import os

PATTERN = re.compile("x")
LIMIT = 3


@decorated(
    1)
def first(a,
          b=2):
    """Words."""
    # more words
    text = (
        "one"
        "two"
    )
    if a and (
        b
    ):
        return text
    else:
        return os.getcwd()


def second():
    try:
        with open("f") as file:
            pass
    except ValueError:
        return PATTERN
    return LIMIT


def short(): return 1


class Kept(Base):
    """Words."""
    size = 1

    def method(self):
        match self.size:
            case 1:
                return 2
'''


def found(*lines: int, others: str = "", source: str = SOURCE) -> list[tuple[int, int, str]]:
    return [(one.first, one.last, one.when) for one in watches(source, lines, others)]


@pytest.mark.parametrize(
    ("line", "watched"),
    [
        ("A module", []),
        ("# more words", []),
        ("Words.", []),
        ('"two"', [(15, 18, "run")]),
        ("if a and (", [(19, 21, "run")]),
        ("return text", [(22, 22, "run")]),
        ("b=2", [(9, 9, "call")]),
        ("    1)", [(9, 10, "import")]),
        ("with open", [(29, 29, "run")]),
        ("except ValueError", [(31, 31, "run")]),
        ("def short", [(36, 36, "call")]),
        ("size = 1", [(41, 41, "import")]),
        ("def method", [(43, 43, "call")]),
        ("case 1", [(45, 45, "run")]),
        ("class Kept", [(39, 39, "import")]),
    ],
)
def test_a_line_is_watched_as_its_statement(line: str, watched: list[tuple[int, int, str]]) -> None:
    assert found(next(number for number, text in enumerate(SOURCE.splitlines(), 1) if line in text)) == watched


def test_what_is_only_bound_counts_where_it_is_used() -> None:
    assert found(3) == [(24, 24, "run")]  # import os
    assert found(6) == [(33, 33, "run")]  # LIMIT
    assert found(6, others="from agent.tools import LIMIT") == [(6, 6, "import")]
    assert found(2) == [(32, 32, "run")]  # re, by way of PATTERN
    assert found(1, source="from agent import patches\n") == [(1, 1, "import")]  # nobody uses it: it does something


def test_a_file_that_cannot_be_parsed_is_watched_by_line() -> None:
    assert found(1, 2, source="def (:\nx\n") == [(1, 1, "import"), (2, 2, "import")]


def test_a_commit_is_watched_against_another(repo: HarnessRepo) -> None:
    base = repo.head()

    def commit(files: dict[str, str | None]) -> str:
        with repo.worktree(repo.head()) as tree:
            for name, text in files.items():
                path = tree / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink() if text is None else path.write_text(textwrap.dedent(text))
            made = repo.capture(tree, base, "Change")
        assert made is not None
        return made

    one = commit({"agent/new.py": "def f():\n    return 1\n", "prompts/more.md": "hello"})
    changes = repo.changed_lines(base, one)
    assert changes is not None
    assert changes.base == base
    assert set(changes.files) == {"agent/new.py", "prompts/", "prompts/more.md"}
    assert [(w.first, w.last, w.when) for w in changes.files["agent/new.py"]] == [(1, 1, "call"), (2, 2, "run")]
    assert repo.changed_lines(one, one) == changes.model_copy(update={"base": one, "files": {}})
