"""The globs of surface and visible: `*`, `?`, `[..]` within one path component, `**` for any number of components.

A glob names files from the repo's root, with `/` between components; `prompts/**` is every file below `prompts`.
Matching is case-sensitive on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

TASK = "/task.toml"
"""How the path of a task's own file ends."""


def problem(glob: str) -> str | None:
    """Why `glob` cannot be used, or None."""
    parts = glob.split("/")
    checks = {
        "it is empty": not glob.strip(),
        "it is absolute; globs start at the repo's root": glob.startswith(("/", "~")),
        "use / between components": "\\" in glob,
        "there is no negation": glob.startswith("!"),
        "it has an empty component": "" in parts,
        "it has a . or .. component": "." in parts or ".." in parts,
        "** must be a component of its own": any("**" in part and part != "**" for part in parts),
        "it has an unclosed [": any(part.count("[") > part.count("]") for part in parts),
        "it holds a control character": not glob.isprintable(),
    }
    return next((why for why, broken in checks.items() if broken), None)


def shown(paths: Iterable[str], visible: Iterable[str] | None) -> set[str]:
    """Of a commit's files, those that a worktree shows: the ones `visible` names (None: all), but no task.

    A directory with a task.toml is a task.  Its verifier and its solution are nothing that a harness or an estimator
    may read, and tasks may lie in the harness repo.
    """
    given = list(paths)
    globs = None if visible is None else list(visible)
    tasks = {path[: -len(TASK)] for path in given if path.endswith(TASK)}
    return {
        path
        for path in given
        if (globs is None or matches(path, globs))
        and not (tasks and any(path[:end] in tasks for end in range(len(path)) if path[end] == "/"))
    }


def matches(path: str, globs: Iterable[str]) -> bool:
    """Whether any of the globs names `path` (relative, `/` between components)."""
    names = path.split("/")
    return any(_match(glob.split("/"), names) for glob in globs)


def _match(parts: Sequence[str], names: Sequence[str]) -> bool:
    if not parts or not names:
        return not parts and not names
    if parts[0] != "**":
        return fnmatchcase(names[0], parts[0]) and _match(parts[1:], names[1:])
    return len(parts) == 1 or any(_match(parts[1:], names[start:]) for start in range(len(names)))
