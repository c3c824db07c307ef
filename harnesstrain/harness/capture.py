"""Capture: whatever an estimator did to its directory becomes one child commit of the base.

The directory is compared with the base's tree, byte for byte.  Nothing in it is obeyed: no ignore rule, no attribute,
no filter, no configuration, no hook, no `.git`.  Tool caches are left out: they are never part of a harness.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

from harnesstrain.core.errors import PolicyFailure
from harnesstrain.harness import globs
from harnesstrain.harness.git import Entry, Git

CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
"""Directories that tools leave behind; not captured unless the base has them."""

MAX_CHANGES = 200
"""Files that one candidate may change."""

MAX_FILE = 1024 * 1024
"""Bytes of one changed file."""

MAX_ENTRIES = 50_000
"""Files in the directory."""


class Author(NamedTuple):
    """Who a commit is by."""

    name: str = "harnesstrain"
    email: str = "harnesstrain@localhost"


@dataclass(frozen=True)
class _Found:
    """One file of the directory."""

    path: str
    mode: str
    place: Path
    size: int


def capture(
    git: Git,
    worktree: Path,
    base: str,
    message: str,
    *,
    author: Author,
    index: Path,
    visible: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
) -> str | None:
    """The commit with the whole delta of `worktree` against `base`, or None when there is none.

    `visible`: the globs the directory was exported with; other files of the base are kept as they are.  `exclude`:
    names at the top of the directory that were put there for the estimator to read.  `index`: a scratch file.
    Raises PolicyFailure when the directory holds what cannot be captured: devices, nested repositories, too much.
    """
    before = git.tree(base)
    shown = globs.shown(before, visible)
    found = {file.path: file for file in _walk(worktree, before, frozenset(exclude))}
    algorithm = "sha256" if len(base) == 64 else "sha1"
    changed = [file for file in found.values() if _differs(file, before.get(file.path), algorithm)]
    deleted = sorted(path for path in shown - found.keys() if before[path].mode != "160000")
    if not changed and not deleted:
        return None
    if len(changed) + len(deleted) > MAX_CHANGES:
        names = ", ".join(f"'{name}'" for name in sorted([file.path for file in changed] + deleted)[:3])
        _refuse(f"{len(changed) + len(deleted)} files changed, more than {MAX_CHANGES}: {names}, …")
    for file in changed:
        if file.size > MAX_FILE:
            _refuse(f"'{show(file.path)}' has {file.size} bytes, more than {MAX_FILE}", file.path)
    null = "0" * len(base)
    lines = [b"0 %s\t%s\0" % (null.encode(), os.fsencode(path)) for path in deleted]
    for file in sorted(changed, key=lambda item: item.path):
        oid = git.line("hash-object", "-w", "--no-filters", "--stdin", stdin=_read(file))
        lines.append(b"%s %s\t%s\0" % (file.mode.encode(), oid.encode(), os.fsencode(file.path)))
    env = {"GIT_INDEX_FILE": str(index)}
    try:
        git.run("read-tree", base, env=env)
        answer = git.ask("update-index", "-z", "--index-info", env=env, stdin=b"".join(lines))
        if answer.code:
            _refuse(f"git refuses a path: {answer.stderr.splitlines()[-1] if answer.stderr else 'no message'}")
        tree = git.line("write-tree", env=env)
    finally:
        index.unlink(missing_ok=True)
    if tree == git.line("rev-parse", f"{base}^{{tree}}"):
        return None
    return commit_tree(git, tree, base, message, author)


def commit_tree(git: Git, tree: str, parent: str | None, message: str, author: Author) -> str:
    """Make a commit object; no hook, no signature."""
    env = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_COMMITTER_NAME": author.name,
        "GIT_COMMITTER_EMAIL": author.email,
    }
    parents = ["-p", parent] if parent else []
    return git.line("commit-tree", tree, *parents, env=env, stdin=message.encode("utf-8", "replace"))


def commit_message(hypothesis: str, trailers: Mapping[str, str]) -> str:
    """A commit message: the hypothesis (first line as subject), then one trailer line each."""
    text = _printable(hypothesis.replace("\r\n", "\n"))
    subject, _, body = text.strip().partition("\n")
    paragraphs = [subject.strip() or "Change the harness"]
    if body.strip():
        paragraphs.append(body.strip("\n").rstrip())
    values = {key: " ".join(_printable(value).split()) for key, value in trailers.items()}
    lines = [f"{key}: {value}" for key, value in values.items() if value]
    if lines:
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def _printable(text: str) -> str:
    return "".join(c if c == "\n" or c.isprintable() else " " for c in text)


def show(path: str) -> str:
    """A path as it may be printed: nothing invisible, nothing that fools the eye."""
    return "".join(c if c.isprintable() and not unicodedata.combining(c) else ascii(c)[1:-1] for c in path)


def _walk(root: Path, before: Mapping[str, Entry], exclude: frozenset[str]) -> Iterator[_Found]:
    kept = {path.rsplit("/", 1)[0] for path in before if CACHES.intersection(path.split("/"))}
    waiting = [("", root)]
    count = 0
    while waiting:
        prefix, directory = waiting.pop()
        try:
            children = sorted(os.scandir(directory), key=lambda child: child.name)
        except OSError as error:
            _refuse(f"cannot read '{show(prefix) or '.'}': {error.strerror}")
        for child in children:
            path = prefix + child.name
            if not prefix and (child.name in exclude or child.name == ".git"):
                continue
            count += 1
            if count > MAX_ENTRIES:
                _refuse(f"the directory holds more than {MAX_ENTRIES} files")
            if child.name.lower() == ".git":
                _refuse(f"'{show(path)}' is a repository inside the harness", path)
            facts = child.stat(follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                if child.name not in CACHES or any(f"{name}/".startswith(f"{path}/") for name in kept):
                    waiting.append((f"{path}/", Path(child.path)))
            elif stat.S_ISLNK(facts.st_mode):
                yield _Found(path, "120000", Path(child.path), facts.st_size)
            elif stat.S_ISREG(facts.st_mode):
                mode = "100755" if facts.st_mode & 0o100 else "100644"
                yield _Found(path, mode, Path(child.path), facts.st_size)
            else:
                _refuse(f"'{show(path)}' is neither a file nor a directory", path)


def _differs(file: _Found, entry: Entry | None, algorithm: str) -> bool:
    if entry is None or entry.mode != file.mode or entry.size != file.size:
        return True
    data = _read(file)
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() != entry.oid


def _read(file: _Found) -> bytes:
    try:
        if file.mode == "120000":
            return os.fsencode(os.readlink(file.place))  # noqa: PTH115 (Path.readlink rewrites)
        fd = os.open(file.place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as opened:
            return opened.read()
    except OSError as error:
        _refuse(f"cannot read '{show(file.path)}': {error.strerror}", file.path)


def _refuse(why: str, path: str | None = None) -> NoReturn:
    hint = "change only files inside the surface, and only by editing them"
    raise PolicyFailure(f"cannot capture the change: {why}", hint=hint, path=path)
