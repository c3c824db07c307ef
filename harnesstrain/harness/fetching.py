"""One commit of a repository that somebody else published, read without checking anything out.

No hook, filter, submodule or attribute of it takes effect: its files come as bytes, by path.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import NotFound, Prerequisite, UsageError
from harnesstrain.harness.git import Answer, Entry, Git

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ADDRESS = re.compile(r"(https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+")
_SAFE = (
    *("-c", "protocol.allow=never"),
    *(flag for scheme in ("https", "http", "ssh", "git", "file") for flag in ("-c", f"protocol.{scheme}.allow=always")),
    *("-c", "fetch.fsckObjects=true"),
    *("-c", "fetch.recurseSubmodules=false"),
)
_BATCH = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", "GIT_ASKPASS": "true"}
"""Nobody is asked anything."""


def is_address(text: str) -> bool:
    """Whether `text` is the address of a repository."""
    return bool(_ADDRESS.fullmatch(text))


@dataclass(frozen=True)
class Blob:
    """One file of a commit."""

    path: str
    executable: bool
    link: bool
    """`data` is where a symbolic link points."""
    data: bytes


class Snapshot:
    """A fetched commit.  Its objects lie in a repository of their own until `discard`."""

    def __init__(self, git: Git, commit: str) -> None:
        self._git = git
        self.commit = commit
        self._tree: dict[str, Entry] | None = None

    def sizes(self) -> dict[str, int]:
        """Bytes of each file, by path.  Submodules are left out."""
        return {path: entry.size for path, entry in self._files().items()}

    def blobs(self, paths: list[str]) -> Iterator[Blob]:
        """Files, in the order asked for."""
        files = self._files()
        for entry, data in self._git.blobs([files[path] for path in paths]):
            yield Blob(entry.path, entry.mode == "100755", entry.mode == "120000", data)

    def discard(self) -> None:
        """Remove the repository."""
        shutil.rmtree(self._git.root, ignore_errors=True)

    def _files(self) -> dict[str, Entry]:
        if self._tree is None:
            self._tree = {path: one for path, one in self._git.tree(self.commit).items() if one.mode != "160000"}
        return self._tree


def fetch(address: str, commit: str | None, cache: Path) -> Snapshot:
    """Fetch a commit; None: the newest of the default branch.  What an earlier call brought is not fetched again.

    `cache`: directory for the repository's objects.  Raises UsageError (no address, no commit), NotFound (it is not
    there), Prerequisite (it cannot be reached).
    """
    if not is_address(address):
        raise UsageError(f"'{address}' is no address of a repository", hint="https://…, ssh://…, file://… or git@…")
    if commit is not None and (not _COMMIT.fullmatch(commit) or not int(commit, 16)):
        raise UsageError(f"'{commit}' is no commit", hint="give all 40 hex digits of one")
    git = _repository(cache / digest(["fetched", address])[:24])
    if commit is not None and _has(git, commit):
        return Snapshot(git, commit)
    wanted = commit or "HEAD"
    answer = _fetch(git, "--depth=1", address, wanted)
    if answer.code and commit is not None and "not our ref" in answer.stderr + _said(answer):
        answer = _fetch(git, address, "+refs/heads/*:refs/fetched/*")
        if not answer.code and not _has(git, commit):
            raise NotFound(f"{address} has no commit {commit}", hint="was the branch rewritten?")
    if answer.code:
        hint = "check the address and the network; `--from DIR` takes a copy that you have"
        raise Prerequisite(f"cannot fetch {address}: {_said(answer)}", hint=hint)
    return Snapshot(git, commit or git.line("rev-parse", "FETCH_HEAD^{commit}"))


def _repository(root: Path) -> Git:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot write {root}: {error.strerror}"
        raise Prerequisite(msg, hint="make room there, or set XDG_CACHE_HOME to another place") from None
    if not (root / ".git/HEAD").is_file():
        outside = Git(root, inside=False)
        outside.run("init", "--quiet", "--template=", str(root), env={"GIT_DIR": str(root / ".git")})
    return Git(root)


def _fetch(git: Git, *args: str) -> Answer:
    options = ("--quiet", "--no-tags", "--no-write-commit-graph", "--no-auto-maintenance")
    return git.ask(*_SAFE, "fetch", *options, *args, env=_BATCH)


def _has(git: Git, commit: str) -> bool:
    """Whether the commit is here with all its files."""
    if git.ask("cat-file", "-e", f"{commit}^{{commit}}").code:
        return False
    return git.ask("rev-list", "--objects", "--no-walk", "--quiet", commit).code == 0


def _said(answer: Answer) -> str:
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "no message")
    return said.partition(" ")[2] or said
