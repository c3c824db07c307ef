"""What to watch while a changed harness runs: the statements that a commit changed, and the files it changed.

A changed line counts when the statement it belongs to runs, since an interpreter reports statements, not lines.  Most
changes also touch lines that run in every episode whatever happens: the `def` of a new function, an import, a constant.
Those would make every flip look caused by the change, so they count where they take effect:

* the head of a function (name, parameters, defaults) counts when the function is entered;
* a module-level import, constant or class whose names occur in no other file counts when a line that mentions one of
  them runs; any other module-level statement when its module is imported;
* comments and docstrings never count.

A file that is no Python counts when it is opened, and one that was added or taken away also when its directory is
listed (`prompts/examples/`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from harnesstrain.core.records.harness import Changes, Watch
from harnesstrain.harness import globs, surface
from harnesstrain.harness.git import Git

MAX_FILES = 400
"""Changed files that are looked at.  A commit that changes more is not traced."""

_HUNK = re.compile(rb"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def changes(git: Git, base: str, commit: str) -> Changes | None:
    """What `commit` changed against `base`; None when that is too much to watch."""
    tree = git.tree(commit)
    changed = [one for one in surface.changes(git, base, commit) if one.mode != "160000"]
    names = globs.shown((one.path for one in changed), None)
    paths = [one.path for one in changed if one.path in names and one.path.isprintable()]
    if len(paths) > MAX_FILES:
        return None
    files: dict[str, tuple[Watch, ...]] = {}
    sources = _sources(git, commit) if any(path.endswith(".py") for path in paths) else {}
    came_or_went = {one.path for one in changed if one.status in ("A", "D")}
    for path in sorted(paths):
        if not path.endswith(".py"):
            files[path] = ()
            if path in came_or_went:
                files[path.rpartition("/")[0] + "/"] = ()
        elif path in tree:
            others = "\n".join(text for name, text in sources.items() if name != path)
            lines = _changed_lines(git, base, commit, path)
            if found := watches(sources.get(path, ""), lines, others):
                files[path] = found
    return Changes(base=base, files=files)


def watches(source: str, changed: Collection[int], others: str = "") -> tuple[Watch, ...]:
    """What to watch in one Python file whose lines `changed` (from 1) differ.  `others`: the other files' text.

    A file that cannot be parsed is watched line by line.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return tuple(Watch(first=line, last=line, when="import") for line in sorted(changed))
    touched = set(changed)
    moved: set[ast.stmt] = set()
    while True:
        fresh = [one for one in tree.body if one not in moved and touched.intersection(_head(one))]
        uses = {one: found for one in fresh if (found := _uses(tree, one, others))}
        if not uses:
            break
        moved.update(uses)
        touched.update(*uses.values())
    watched = {one for stmt in tree.body for one in _statement(stmt, touched, moved, "import")}
    return tuple(sorted(watched, key=lambda one: (one.first, one.last, one.when)))


def _sources(git: Git, commit: str) -> dict[str, str]:
    """The text of every Python file of a commit, tasks left out."""
    tree = git.tree(commit)
    entries = [tree[path] for path in sorted(globs.shown(tree, None)) if path.endswith(".py")]
    files = [entry for entry in entries if entry.mode in ("100644", "100755")]
    return {entry.path: data.decode("utf-8", "replace") for entry, data in git.blobs(files)}


def _changed_lines(git: Git, base: str, commit: str, path: str) -> set[int]:
    """The new side's lines that differ.  Where lines were only taken away: the lines around the place."""
    out = git.run(
        "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--unified=0", base, commit, "--", path
    )
    lines: set[int] = set()
    for start, count in _HUNK.findall(out):
        first, length = int(start), int(count) if count else 1
        lines.update(range(first, first + length) if length else (first, first + 1))
    return lines


def _statement(stmt: ast.stmt, touched: set[int], moved: set[ast.stmt], when: str) -> Iterator[Watch]:
    """The watches of one statement and all below it."""
    if stmt not in moved:
        head = _head(stmt)
        if touched.intersection(head):
            if isinstance(stmt, _FUNCTIONS):
                first = min([stmt.lineno, *(one.lineno for one in stmt.decorator_list)])
                yield Watch(first=first, last=first, when="call")
            else:
                yield Watch(first=head.start, last=head.stop - 1, when=when)
        for decorator in getattr(stmt, "decorator_list", ()):
            if touched.intersection(_span(decorator)):
                yield Watch(first=decorator.lineno, last=_end(decorator), when=when)
    inner = "run" if isinstance(stmt, _FUNCTIONS) else when
    for below in _below(stmt):
        if not (isinstance(stmt, _FUNCTIONS) and below.lineno == stmt.lineno):
            yield from _statement(below, touched, moved, inner)
        elif touched.intersection(_span(below)):
            yield Watch(first=stmt.lineno, last=stmt.lineno, when="call")
    for part in _parts(stmt):
        if touched.intersection(range(part.lineno, _start(part.body))):
            yield Watch(first=part.lineno, last=max(part.lineno, _start(part.body) - 1), when=inner)


def _below(stmt: ast.stmt) -> Iterator[ast.stmt]:
    """The statements directly inside one, docstrings left out."""
    for name in ("body", "orelse", "finalbody"):
        inner: Sequence[ast.stmt] = getattr(stmt, name, ())
        documented = name == "body" and isinstance(stmt, (*_FUNCTIONS, ast.ClassDef)) and _docstring(inner)
        yield from inner[1:] if documented else inner
    for handler in getattr(stmt, "handlers", ()):
        yield from handler.body
    for case in getattr(stmt, "cases", ()):
        yield from case.body


class _Part:
    """A clause of a statement that runs by itself: `except ..:`, `case ..:`."""

    def __init__(self, lineno: int, body: list[ast.stmt]) -> None:
        self.lineno = lineno
        self.body = body


def _parts(stmt: ast.stmt) -> Iterator[_Part]:
    for handler in getattr(stmt, "handlers", ()):
        yield _Part(handler.lineno, handler.body)
    for case in getattr(stmt, "cases", ()):
        yield _Part(case.pattern.lineno, case.body)


def _start(body: Sequence[ast.stmt]) -> int:
    first = body[0]
    decorators: list[ast.expr] = getattr(first, "decorator_list", [])
    return min([first.lineno, *(one.lineno for one in decorators)])


def _head(stmt: ast.stmt) -> range:
    """The lines of a statement itself: all of a simple one, those before the body of a compound one.

    The docstring of the module, which is a statement, has none.
    """
    if isinstance(stmt, ast.Match):
        return range(stmt.lineno, _end(stmt.subject) + 1)
    body = getattr(stmt, "body", None)
    if not isinstance(body, list):
        return range(0) if _docstring([stmt]) else _span(stmt)
    ends = [
        _end(node)
        for node in ast.iter_child_nodes(stmt)
        if not isinstance(node, ast.stmt) and node not in getattr(stmt, "decorator_list", ())
        for node in (node, *ast.walk(node))
        if isinstance(node, ast.expr | ast.arg)
    ]
    own = [end for end in ends if end < _start(body)]
    return range(stmt.lineno, max([stmt.lineno, *own]) + 1)


def _uses(tree: ast.Module, stmt: ast.stmt, others: str) -> set[int]:
    """The lines that mention what a module-level statement binds; empty when it counts where it stands."""
    names = _bound(stmt)
    if not names or re.search(rf"\b(?:{'|'.join(map(re.escape, names))})\b", others):
        return set()
    own = _span(stmt)
    used = {
        node.id: set[int]() for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.lineno not in own:
            used[node.id].add(node.lineno)
    if not all(used.get(name) for name in names):
        return set()
    return {line for name in names for line in used[name]}


def _bound(stmt: ast.stmt) -> list[str]:
    """The names that a statement only binds; none for one that may do more than that."""
    if isinstance(stmt, ast.Import | ast.ImportFrom):
        names = [one.asname or one.name.partition(".")[0] for one in stmt.names]
        return [] if "*" in names else names
    if isinstance(stmt, ast.ClassDef):
        return [stmt.name]
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target] if isinstance(stmt, ast.AnnAssign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []


def _docstring(body: Sequence[ast.stmt]) -> bool:
    first = body[0] if body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _span(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, _end(node) + 1)


def _end(node: ast.AST) -> int:
    end: int | None = getattr(node, "end_lineno", None)
    return end if end is not None else 0
