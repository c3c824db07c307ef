"""The harness repo: revisions, versions, worktrees, candidates, refs, promotion.  No git object leaves this room."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harnesstrain.core import scratch
from harnesstrain.core.digests import digest_bytes
from harnesstrain.core.errors import Ambiguous, ConfigError, NotFound, UsageError
from harnesstrain.core.records.harness import Changes, HarnessVersion, Manifest
from harnesstrain.harness import manifest as manifests
from harnesstrain.harness import promotion, surface, tracing, worktrees
from harnesstrain.harness.capture import Author, capture
from harnesstrain.harness.checkout import STATE, dirty
from harnesstrain.harness.git import Git, failed
from harnesstrain.harness.memory import Memory, is_oid
from harnesstrain.harness.promotion import Promoted

REFS = "refs/ht/"
"""Where the project's own refs live."""
VERSIONS, DIFFS = 256, 64
"""Versions and differences that are remembered."""
DIFF_KEPT = 200_000
"""Characters of a difference that is remembered."""


class HarnessRepo:
    """One harness repo.  Thread-safe; holds no open files."""

    def __init__(self, root: Path, git: Git, state: Path) -> None:
        self.root = root
        self.state = state
        """Scratch space; `.ht` at the root unless told otherwise."""
        self._git = git
        self._versions: Memory[str, HarnessVersion] = Memory(VERSIONS)
        self._diffs: Memory[tuple[str, str], str] = Memory(DIFFS)

    @classmethod
    def open(cls, path: Path, *, state: Path | None = None) -> HarnessRepo:
        """The harness repo that `path` is in.

        Raises ConfigError when it is no git repository, bare, without a commit or without a committed harness.toml.
        """
        start = path.resolve()
        if not start.is_dir():
            raise ConfigError(f"no directory {path}", hint="`ht init DIR` makes a harness repo")
        root = next((place for place in (start, *start.parents) if (place / ".git").exists()), None)
        if root is None:
            if (start / "HEAD").is_file() and (start / "objects").is_dir():
                raise ConfigError(f"{path} is a bare repository", hint="use a clone with a work tree")
            raise ConfigError(f"{path} is not in a git repository", hint="`ht init DIR` makes a harness repo")
        git = Git(root)
        if git.config("core.bare") == "true":
            raise ConfigError(f"{root} is a bare repository", hint="use a clone with a work tree")
        repo = cls(root, git, state or root / STATE)
        if git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}").code:
            raise ConfigError(f"{root} has no commit yet", hint="`git add -A && git commit`")
        if repo.file("HEAD", manifests.NAME) is None:
            if (root / manifests.NAME).is_file():
                hint = f"`git add {manifests.NAME} && git commit`"
                raise ConfigError(f"{manifests.NAME} is not committed in {root}", hint=hint)
            raise ConfigError(f"no {manifests.NAME} in {root}", hint="`ht init DIR` makes a harness repo")
        return repo

    # --- revisions

    def head(self) -> str:
        """The commit that is checked out."""
        return self._git.line("rev-parse", "--verify", "HEAD^{commit}")

    def branch(self) -> str:
        """The branch that is checked out.  Raises UsageError when HEAD is detached."""
        answer = self._git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
        if answer.code:
            hint = "`git switch BRANCH`, then rerun"
            raise UsageError(f"HEAD is detached at {self.head()[:12]}; there is no branch to train", hint=hint)
        return answer.stdout.decode().strip()

    def branch_head(self, branch: str) -> str:
        """The commit a branch is at.  Raises NotFound."""
        answer = self._git.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
        if answer.code:
            raise NotFound(f"no branch '{branch}'", hint="`git branch` lists them")
        return answer.stdout.decode().strip()

    def resolve(self, rev: str) -> str:
        """The commit (full hex) that a git revision names.  Raises NotFound or Ambiguous."""
        if not rev or "\0" in rev:
            raise NotFound(f"no revision {rev!r}", hint="`git log` lists commits")
        answer = self._git.ask("rev-parse", "--verify", "--end-of-options", f"{rev}^{{commit}}")
        if answer.code == 0:
            return answer.stdout.decode().strip()
        if "is ambiguous" in answer.stderr:
            named = self._git.ask("rev-parse", f"--disambiguate={rev}").stdout.decode().split()
            raise Ambiguous(f"revision '{rev}' is ambiguous", hint="give more characters", candidates=sorted(named))
        raise NotFound(f"no commit is called '{rev}'", hint="`git log` lists commits")

    def parents(self, commit: str) -> tuple[str, ...]:
        """The parents of a commit, in order."""
        return tuple(self._git.line("rev-list", "--parents", "-n", "1", commit).split()[1:])

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` is `old` or descends from it."""
        return self._git.ask("merge-base", "--is-ancestor", old, new).code == 0

    def history(self, commit: str, limit: int = 100) -> tuple[str, ...]:
        """The commit and its first parents, newest first."""
        return tuple(self._git.line("rev-list", "--first-parent", "-n", str(limit), commit).split())

    # --- content

    def file(self, commit: str, path: str) -> bytes | None:
        """The bytes of a file at a commit, or None when it is not a file there."""
        answer = self._git.ask("cat-file", "blob", f"{commit}:{path}")
        return answer.stdout if answer.code == 0 else None

    def manifest(self, commit: str) -> Manifest:
        """harness.toml at a commit; its environment as an absolute path.  Raises ConfigError."""
        data = self.file(commit, manifests.NAME)
        if data is None:
            raise ConfigError(f"commit {commit[:12]} has no {manifests.NAME}", hint="choose a commit of a harness")
        read = manifests.parse(data, f"{commit[:12]}:{manifests.NAME}")
        if read.environment is None:
            return read
        return read.model_copy(update={"environment": os.path.normpath(self.root / read.environment)})

    def version(self, commit: str) -> HarnessVersion:
        """The harness at a commit.  `sdk_digest` is empty when the repo vendors no ht_sdk.py."""
        known = self._versions.get(commit)
        if known is not None:
            return known
        sdk = self.file(commit, manifests.SDK)
        subject = self._git.line("log", "-1", "--no-show-signature", "--format=%s", commit)
        version = HarnessVersion(
            commit=commit,
            manifest=self.manifest(commit),
            sdk_digest=digest_bytes(sdk) if sdk is not None else "",
            subject=subject,
        )
        if is_oid(commit):
            self._versions.keep(commit, version)
        return version

    def diff(self, old: str, new: str) -> str:
        """The difference of two commits as a patch; bytes that are not UTF-8 are replaced."""
        known = self._diffs.get((old, new))
        if known is not None:
            return known
        out = self._git.run("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--patch", old, new, "--")
        text = out.decode("utf-8", "replace")
        if is_oid(old) and is_oid(new) and len(text) <= DIFF_KEPT:
            self._diffs.keep((old, new), text)
        return text

    def changed_files(self, old: str, new: str) -> tuple[str, ...]:
        """Paths that differ between two commits, sorted; a rename counts as both its names."""
        return tuple(sorted(change.path for change in surface.changes(self._git, old, new)))

    def changed_lines(self, base: str, commit: str) -> Changes | None:
        """What to watch while `commit` runs, to know whether its difference to `base` did; None: too much."""
        return tracing.changes(self._git, base, commit)

    def dirty(self) -> tuple[str, ...]:
        """Paths of the user's checkout that differ from HEAD, untracked ones included."""
        return dirty(self._git)

    # --- worktrees and candidates

    @contextmanager
    def worktree(self, commit: str, visible: Sequence[str] | None = None) -> Iterator[Path]:
        """A private directory with the files of a commit, without `.git`; then removed.

        Of the files, those that `visible` names (None: all); never a task, which is a directory with a task.toml.
        """
        with worktrees.exported(self._git, commit, self.state / "worktrees", visible) as directory:
            if visible is None:
                worktrees.compile_ahead(directory / manifests.SDK)
            yield directory

    def sweep(self) -> int:
        """Remove worktrees that crashed processes left; returns how many."""
        return scratch.sweep(self.state / "worktrees")

    def capture(
        self,
        worktree: Path,
        base: str,
        message: str,
        *,
        author: Author | None = None,
        visible: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
    ) -> str | None:
        """The whole delta of `worktree` as one child commit of `base`; None when there is none.

        `visible`: as given to `worktree`.  `exclude`: names at its top that are not the estimator's.  Not guarded yet.
        Raises PolicyFailure when it holds what cannot be captured.
        """
        with scratch.scratch(self.state / "worktrees", "index") as place:
            return capture(
                self._git,
                worktree,
                base,
                message,
                author=author or self.author(),
                index=place / "index",
                visible=visible,
                exclude=exclude,
            )

    def guard(self, base: str, commit: str, manifest: Manifest | None = None) -> None:
        """Raise PolicyFailure, naming the path, unless the commit keeps to the surface (of the base's manifest)."""
        surface.guard(self._git, base, commit, manifest or self.manifest(base))

    def author(self) -> Author:
        """The user's git identity, or the project's own when there is none."""
        name, email = self._git.config("user.name"), self._git.config("user.email")
        return Author(name, email) if name and email else Author()

    # --- refs

    def set_ref(self, name: str, commit: str) -> None:
        """Point `refs/ht/NAME` (e.g. `candidates/<id>`) at a commit, so that it stays reachable."""
        answer = self._git.ask("update-ref", f"{REFS}{name}", commit)
        if answer.code:
            raise failed("update-ref", answer)

    def refs(self, prefix: str = "") -> Mapping[str, str]:
        """Commits by ref name below `refs/ht/`, those that start with `prefix`."""
        below = REFS + prefix.rpartition("/")[0]
        lines = self._git.run("for-each-ref", "--format=%(objectname) %(refname)", below.rstrip("/")).decode()
        pairs = (line.split(" ", 1) for line in lines.splitlines())
        found = {name.removeprefix(REFS): commit for commit, name in pairs}
        return {name: commit for name, commit in found.items() if name.startswith(prefix)}

    def promote(self, branch: str, new: str, expected_old: str) -> Promoted:
        """Compare-and-swap of a branch; the user's files follow if clean.  Repeating it repairs an interrupted one."""
        return promotion.promote(self._git, branch, new, expected_old)
