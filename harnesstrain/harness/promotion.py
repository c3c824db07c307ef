"""Promotion: compare-and-swap of the harness branch, then the user's checked-out files, but for the changed ones.

A process killed in between leaves the branch moved and the files behind.  Promoting the same step again finishes it.
"""

from __future__ import annotations

import time
from enum import StrEnum

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.harness.checkout import follow
from harnesstrain.harness.git import Git, failed


class Checkout(StrEnum):
    """What became of the user's checked-out files."""

    UPDATED = "updated"
    """They show the new commit."""
    ELSEWHERE = "elsewhere"
    """Another branch is checked out; nothing to do."""
    KEPT = "kept"
    """Some hold changes of the user's and were left alone; the others show the new commit.  The reason names them."""


class Promoted(Record):
    """What a promotion did."""

    branch: str
    old: str
    new: str
    moved: bool
    """Whether the branch is at `new` now."""
    checkout: Checkout
    reason: str = ""
    """Why it was refused, or why the files were kept; empty when there is nothing to say."""


def promote(git: Git, branch: str, new: str, expected_old: str) -> Promoted:
    """Move `branch` from `expected_old` to `new`, its descendant, in one compare-and-swap.

    A branch that is elsewhere refuses (`moved` False, the reason names where it is); one that is at `new` already only
    gets its files repaired.  Raises UsageError when `new` does not descend from `expected_old`.
    """
    ref = f"refs/heads/{branch}"
    if git.ask("merge-base", "--is-ancestor", expected_old, new).code:
        message = f"{new[:12]} does not descend from {expected_old[:12]}"
        raise UsageError(message, hint="promote a candidate of the current baseline")
    checked_out = git.ask("symbolic-ref", "--quiet", "HEAD").stdout.decode().strip() == ref
    now = _at(git, ref)
    if now != new:
        moved = now == expected_old and _swap(git, ref, new, expected_old)
        if not moved:
            now = _at(git, ref)
            where = now[:12] if now else "nowhere"
            reason = f"branch {branch} is at {where}, not at {expected_old[:12]}: somebody else moved it"
            checkout = Checkout.KEPT if checked_out else Checkout.ELSEWHERE
            return Promoted(branch=branch, old=expected_old, new=new, moved=False, checkout=checkout, reason=reason)
    if not checked_out:
        return Promoted(branch=branch, old=expected_old, new=new, moved=True, checkout=Checkout.ELSEWHERE)
    followed = follow(git, expected_old, new)
    checkout = Checkout.UPDATED if followed.updated else Checkout.KEPT
    return Promoted(branch=branch, old=expected_old, new=new, moved=True, checkout=checkout, reason=followed.reason)


def _at(git: Git, ref: str) -> str:
    """Where a ref is, or empty."""
    return git.ask("rev-parse", "--verify", "--quiet", ref).stdout.decode().strip()


def _swap(git: Git, ref: str, new: str, old: str) -> bool:
    """Whether the ref was at `old` and is at `new` now.  Raises Busy when another process keeps it locked."""
    for pause in (0.1, 0.3, 1.0, 0.0):
        answer = git.ask("update-ref", "-m", f"ht: promote {new[:12]}", ref, new, old)
        if answer.code == 0:
            return True
        if "File exists" not in answer.stderr:
            break
        time.sleep(pause)
    if "cannot lock ref" in answer.stderr and "File exists" not in answer.stderr:
        return False
    raise failed("update-ref", answer)
