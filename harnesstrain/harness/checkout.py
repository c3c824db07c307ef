"""The user's checked-out files: what is uncommitted, and following a branch that moved, without losing a byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from harnesstrain.harness.git import Git, failed
from harnesstrain.harness.surface import Change, changes

STATE = ".ht"
"""The state directory at the repo's root; never counted as a change."""


class Followed(NamedTuple):
    """Whether the files show the new commit, or why not."""

    updated: bool
    reason: str = ""


def dirty(git: Git) -> tuple[str, ...]:
    """Paths that differ from HEAD: staged, changed or untracked (ignored ones do not count); sorted."""
    records = git.run("status", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames").split(b"\0")
    paths = {os.fsdecode(record[3:]) for record in records if record}
    return tuple(sorted(path for path in paths if path != STATE and not path.startswith(f"{STATE}/")))


def follow(git: Git, old: str, new: str) -> Followed:
    """Bring index and files from `old` to `new`, unless that would touch a change of the user's.

    Also finishes what an earlier call, killed in the middle, had begun.
    """
    git.ask("update-index", "-q", "--refresh")
    if not _names(git, "diff-index", "--cached", new):
        modified = _names(git, "diff-files")
        return Followed(True) if not modified else Followed(False, _holds(modified))
    staged = _names(git, "diff-index", "--cached", old)
    if staged:
        return Followed(False, _holds(staged))
    steps = {change.path: change for change in changes(git, old, new)}
    modified = _names(git, "diff-files")
    added = [path for path, step in steps.items() if step.status == "A" and os.path.lexists(git.root / path)]
    arrived = [path for path in {*modified, *added} if path in steps and _arrived(git, steps[path])]
    theirs = sorted({*modified, *added} - set(arrived))
    if theirs:
        return Followed(False, _holds(theirs))
    for path in arrived:
        if steps[path].status == "A":
            (git.root / path).unlink()
        else:
            git.run("checkout-index", "-f", "-q", "-u", "--", path)
    answer = git.ask("read-tree", "-m", "-u", old, new)
    if answer.code:
        return Followed(False, failed("read-tree", answer).message)
    return Followed(True)


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
    return git.ask("hash-object", f"--path={step.path}", "--", str(place)).stdout.decode().strip() == step.oid


def _oid(git: Git, data: bytes) -> str:
    return git.line("hash-object", "--stdin", "--no-filters", stdin=data)


def _holds(paths: list[str]) -> str:
    shown = ", ".join(f"'{Path(path)}'" for path in paths[:3])
    return f"uncommitted changes in {shown}{', …' if len(paths) > 3 else ''}"
