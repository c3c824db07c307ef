"""The surface guard: what a candidate commit may change, checked on the commit itself.

Every entry of the raw diff counts, so a rename is a deletion and an addition, and a changed mode is a change.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from harnesstrain.core.errors import PolicyFailure
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness import globs
from harnesstrain.harness.capture import CACHES, MAX_CHANGES, MAX_FILE, show
from harnesstrain.harness.git import Entry, Git
from harnesstrain.harness.manifest import FROZEN

MAX_TOTAL = 4 * 1024 * 1024
"""Bytes of all changed files together."""

MAX_PATH = 512
"""Bytes of a path."""

SHADOWS = frozenset(
    {"conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"}
    | {"pyproject.toml", "setup.py", "makefile"}
)
"""Names that tools pick up by themselves.  A surface opens one only by naming it in full."""

COMPILED = (".pth", ".pyc", ".pyo", ".so", ".pyd", ".dll", ".dylib", ".egg-link")
"""Suffixes that python loads or obeys unseen."""


class Change(NamedTuple):
    """One entry of the raw diff."""

    path: str
    status: str
    """A, D, M or T."""
    old_mode: str
    mode: str
    oid: str


class Violation(NamedTuple):
    """One rule broken by one path."""

    path: str
    rule: str


def guard(git: Git, base: str, commit: str, manifest: Manifest) -> None:
    """Raise PolicyFailure unless `commit` is a child of `base` alone and changes nothing outside the surface.

    The error's `extra` holds `path` (of the first violation) and `violations`: a list of {path, rule}.
    """
    parents = git.line("rev-list", "--parents", "-n", "1", commit).split()[1:]
    if parents != [base]:
        said = ", ".join(parent[:12] for parent in parents) or "none"
        hint = "the candidate must be one commit on top of its base"
        raise PolicyFailure(f"the parent of {commit[:12]} is not {base[:12]} alone but: {said}", hint=hint, path=None)
    changed = changes(git, base, commit)
    found = list(_violations(git, changed, git.tree(commit), manifest))
    if found:
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise PolicyFailure(
            f"outside the rules of the surface: '{show(first.path)}' {first.rule}{more}",
            hint=f"the surface is {', '.join(manifest.surface)}",
            path=first.path,
            violations=[{"path": show(item.path), "rule": item.rule} for item in found],
        )


def changes(git: Git, base: str, commit: str) -> list[Change]:
    """The raw difference between two commits, renames not paired."""
    fields = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", base, commit).split(b"\0")
    found = []
    for head, name in zip(fields[0:-1:2], fields[1::2], strict=False):
        old_mode, mode, _, oid, status = head.decode().removeprefix(":").split(" ")
        found.append(Change(os.fsdecode(name), status, old_mode, mode, oid))
    return found


def _violations(git: Git, changed: list[Change], tree: Mapping[str, Entry], manifest: Manifest) -> Iterator[Violation]:
    if len(changed) > MAX_CHANGES:
        yield Violation(changed[0].path, f"is one of {len(changed)} changed files, more than {MAX_CHANGES}")
    folded: dict[str, list[str]] = {}
    for path in _with_directories(tree):
        folded.setdefault(_fold(path), []).append(path)
    sound: list[Entry] = []
    for change in changed:
        rule = _path_rule(change.path, manifest.surface) or _mode_rule(change)
        twins = [path for path in folded.get(_fold(change.path), ()) if path != change.path]
        if rule is None and change.status != "D" and (twins or _directory_twin(change.path, folded)):
            rule = "differs from another path only in case or form"
        if rule:
            yield Violation(change.path, rule)
        elif change.status != "D":
            sound.append(tree[change.path])
    yield from _content(git, sound)


def _path_rule(path: str, surface: tuple[str, ...]) -> str | None:
    parts = path.split("/")
    last = parts[-1].casefold()
    stems = {part.casefold().split(".")[0] for part in parts}
    rules = {
        "has an unusable name": any(part in ("", ".", "..") for part in parts) or "\\" in path,
        "is longer than a path may be": len(os.fsencode(path)) > MAX_PATH,
        "is not plain text in its name": not path.isprintable() or _invisible(path),
        "is not in composed form (NFC)": unicodedata.normalize("NFC", path) != path,
        "has a name that ends in a space or a dot": any(part != part.rstrip(" .") for part in parts),
        "belongs to git": any(_is_git(part) for part in parts),
        "is frozen": _fold(path) in {name.casefold() for name in FROZEN} or "ht_sdk" in stems,
        "is a tool's cache": any(part.casefold() in CACHES for part in parts),
        "is loaded unseen": last.endswith(COMPILED),
        "is picked up by tools unasked": last in SHADOWS and path not in surface,
        "is outside the surface": not globs.matches(path, surface),
    }
    return next((rule for rule, broken in rules.items() if broken), None)


def _mode_rule(change: Change) -> str | None:
    if change.status == "D":
        return "is a submodule" if change.old_mode == "160000" else None
    return {"100644": None, "100755": None, "120000": "is a symlink", "160000": "is a submodule"}.get(
        change.mode, f"has mode {change.mode}"
    )


def _content(git: Git, entries: list[Entry]) -> Iterator[Violation]:
    small = []
    total = 0
    for entry in entries:
        total += entry.size
        if entry.size > MAX_FILE:
            yield Violation(entry.path, f"has {entry.size} bytes, more than {MAX_FILE}")
        else:
            small.append(entry)
    if total > MAX_TOTAL:
        yield Violation(entries[0].path, f"is part of {total} changed bytes, more than {MAX_TOTAL}")
        return
    for entry, data in git.blobs(small):
        if b"\0" in data:
            yield Violation(entry.path, "is binary")
            continue
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            yield Violation(entry.path, "is not UTF-8 text")


def _with_directories(tree: Mapping[str, Entry]) -> set[str]:
    found = set(tree)
    for path in tree:
        parts = path.split("/")
        found.update("/".join(parts[:length]) for length in range(1, len(parts)))
    return found


def _directory_twin(path: str, folded: Mapping[str, list[str]]) -> bool:
    parts = path.split("/")
    prefixes = ("/".join(parts[:length]) for length in range(1, len(parts)))
    return any(len(folded.get(_fold(prefix), ())) > 1 for prefix in prefixes)


def _fold(path: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def _invisible(path: str) -> bool:
    return any(unicodedata.category(c) in ("Cf", "Cc", "Co", "Cn", "Cs", "Zl", "Zp") for c in path)


def _is_git(part: str) -> bool:
    """`.git` and everything git reads by name, however a file system may spell it."""
    name = _fold(part).rstrip(" .")
    return name.startswith(".git") or name.startswith("git~") or name.split(":")[0].rstrip(" .") == ".git"
