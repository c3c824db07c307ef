"""The user's checked-out files: what is uncommitted, and following a branch that moved, without losing a byte."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from harnesstrain.harness.git import Answer, Git, failed
from harnesstrain.harness.surface import Change, changes

STATE = ".ht"
"""The state directory at the repo's root; never counted as a change."""


class Followed(NamedTuple):
    """Whether all files show the new commit, or which do not and why."""

    updated: bool
    reason: str = ""


def dirty(git: Git) -> tuple[str, ...]:
    """Paths that differ from HEAD: staged, changed or untracked (ignored ones do not count); sorted."""
    records = git.run("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames").split(b"\0")
    paths = {os.fsdecode(record[3:]) for record in records if record}
    return tuple(sorted(path for path in paths if path != STATE and not path.startswith(f"{STATE}/")))


def follow(git: Git, old: str, new: str) -> Followed:
    """Bring index and files from `old` to `new`: every path that differs between them and holds no user's change.

    A changed file of the user's keeps its bytes; its index entry becomes that of `new`, so that it reads as an edit of
    the new commit and not as a staged way back to the old one.  Content that only the index holds stays staged.
    Also finishes what an earlier call, killed in the middle, had begun.
    """
    git.ask("update-index", "-q", "--refresh")
    steps = {change.path: change for change in changes(git, old, new)}
    of_old, of_new = (set(_names(git, "diff-index", "--cached", commit)) for commit in (old, new))
    modified = set(_names(git, "diff-files"))
    touched = {
        path for path, step in steps.items() if path in modified or path in of_old or _in_the_way(git, step, steps)
    }
    only_staged = {path for path in touched if path in modified and path in of_old and path in of_new}
    answer = _enter(git, [steps[path] for path in sorted(touched - only_staged)])
    if answer.code == 0:
        start = _tree(git, old, [steps[path] for path in sorted(touched)])
        answer = git.ask("read-tree", "-m", "-u", start, new)
    if answer.code:
        return Followed(False, failed("read-tree", answer).message)
    kept = sorted(only_staged | {path for path in touched if not _arrived(git, steps[path])})
    return Followed(False, _holds(kept, steps, only_staged)) if kept else Followed(True)


def _tree(git: Git, commit: str, entries: list[Change]) -> str:
    """The tree of a commit with some entries replaced; git touches no file that is the same in both trees it merges."""
    with tempfile.TemporaryDirectory() as place:
        env = {"GIT_INDEX_FILE": str(Path(place) / "index")}
        git.run("read-tree", commit, env=env)
        answer = _enter(git, entries, env)
        if answer.code:
            raise failed("update-index", answer)
        return git.line("write-tree", env=env)


def _enter(git: Git, entries: list[Change], env: Mapping[str, str] | None = None) -> Answer:
    """Write index entries, no file."""
    lines = [f"{entry.mode if entry.status != 'D' else '0'} {entry.oid}\t{entry.path}\0" for entry in entries]
    return git.ask("update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)), env=env)


def _in_the_way(git: Git, step: Change, steps: Mapping[str, Change]) -> bool:
    """Whether something untracked lies where the new commit adds a file."""
    if step.status != "A":
        return False
    above = [parent.as_posix() for parent in Path(step.path).parents if parent != Path()]
    blocked = [path for path in above if os.path.lexists(git.root / path) and path not in steps]
    return os.path.lexists(git.root / step.path) or any(
        (git.root / path).is_symlink() or not (git.root / path).is_dir() for path in blocked
    )


def _names(git: Git, *command: str) -> list[str]:
    fields = git.run(*command, "--raw", "-z", "--no-renames").split(b"\0")
    return [os.fsdecode(name) for name in fields[1::2]]


def _arrived(git: Git, step: Change) -> bool:
    """Whether a file is exactly what the new commit says, so that writing it again loses nothing."""
    place = git.root / step.path
    if step.status == "D":
        return not os.path.lexists(place)
    if step.mode == "120000":
        return place.is_symlink() and _oid(git, os.readlink(os.fsencode(place))) == step.oid  # noqa: PTH115
    if place.is_symlink() or not place.is_file():
        return False
    if git.config("core.fileMode") != "false" and bool(place.stat().st_mode & 0o100) != (step.mode == "100755"):
        return False
    return git.ask("hash-object", f"--path={step.path}", "--", str(place)).stdout.decode().strip() == step.oid


def _oid(git: Git, data: bytes) -> str:
    return git.line("hash-object", "--stdin", "--no-filters", stdin=data)


def _holds(paths: list[str], steps: Mapping[str, Change], only_staged: set[str]) -> str:
    gone = {path for path in paths if steps[path].status == "D" and path not in only_staged}
    marks = dict.fromkeys(gone, " (now untracked)") | dict.fromkeys(only_staged, " (as staged)")
    shown = ", ".join(f"'{Path(path)}'{marks.get(path, '')}" for path in paths)
    command = "git diff HEAD" if only_staged else "git diff"
    tail = "" if gone == set(paths) else f"; `{command}` shows how they differ from the promoted ones"
    return f"kept your uncommitted changes in {shown}{tail}"
