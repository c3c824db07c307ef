"""git, called safely: no hooks, no pager, no prompt, no inherited GIT_* state; bytes in, bytes out.

Everything goes through GitPython's command layer, one process a call, so several threads may share a `Git`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from harnesstrain.core.errors import Busy, HtError, Prerequisite

try:
    import git as gitpython
except ImportError as missing:  # GitPython refuses to load without a git program
    raise Prerequisite("git is not installed", hint="install git, then `ht doctor`") from missing

FLAGS = (
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "advice.detachedHead=false",
)
"""Before every subcommand."""

_NEUTRAL = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
    "GIT_NAMESPACE": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": f"{os.devnull}/none",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_EXTERNAL_DIFF": "",
}
"""Overrides whatever the caller's environment holds."""


class Answer(NamedTuple):
    """What a git command said."""

    code: int
    stdout: bytes
    stderr: str


class Entry(NamedTuple):
    """One file of a commit's tree."""

    path: str
    """Relative, `/` between components; bytes that are not UTF-8 as surrogates (os.fsdecode)."""
    mode: str
    """100644, 100755, 120000 (symlink), 160000 (submodule)."""
    oid: str
    size: int
    """Bytes; 0 for submodules."""


class _Places(NamedTuple):
    directory: Path
    common: Path
    """Shared by linked work trees."""


class Git:
    """git for one directory.

    `root` is the top of a work tree with its repository; `inside=False` means a plain directory, whatever lies around.
    """

    def __init__(self, root: Path, *, inside: bool = True) -> None:
        self.root = root
        self._git = gitpython.Git(str(root))
        self._env = dict(_NEUTRAL)
        if inside:
            self.directory, common = _places(root)
            self._env |= {
                "GIT_DIR": str(self.directory),
                "GIT_WORK_TREE": str(root),
                "GIT_COMMON_DIR": str(common),
                "GIT_OBJECT_DIRECTORY": str(common / "objects"),
                "GIT_INDEX_FILE": str(self.directory / "index"),
            }
            self.run("rev-parse", "--git-dir")
        else:
            self.directory = root / ".git"
            self._env |= {
                "GIT_DIR": str(root / ".no-repository"),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_GLOBAL": os.devnull,
            }

    def ask(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Answer:
        """Run git; the exit code is the caller's to judge."""
        return self._ask(list(args), {**self._env, **(env or {})}, stdin)

    def run(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """Standard output of a git command that must succeed.  Raises Busy, Prerequisite or HtError."""
        answer = self.ask(*args, stdin=stdin, env=env)
        if answer.code:
            raise failed(args[0], answer)
        return answer.stdout

    def line(self, *args: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> str:
        """The one line that a git command prints."""
        return os.fsdecode(self.run(*args, env=env, stdin=stdin)).rstrip("\n")

    def config(self, key: str) -> str | None:
        """A configuration value, or None."""
        answer = self.ask("config", "--get", key)
        return os.fsdecode(answer.stdout).rstrip("\n") if answer.code == 0 else None

    def tree(self, commit: str) -> dict[str, Entry]:
        """Every file of a commit (or tree), by path."""
        found: dict[str, Entry] = {}
        for record in self.run("ls-tree", "-r", "-z", "-l", "--full-tree", commit).split(b"\0"):
            if record:
                head, _, name = record.partition(b"\t")
                mode, _, oid, size = head.split()
                path = os.fsdecode(name)
                found[path] = Entry(path, mode.decode(), oid.decode(), int(size) if size != b"-" else 0)
        return found

    def blobs(self, entries: list[Entry], batch: int = 32 * 1024 * 1024) -> Iterator[tuple[Entry, bytes]]:
        """The exact bytes of each entry, no filter applied, at most about `batch` bytes held at once."""
        start = 0
        while start < len(entries):
            stop, held = start, 0
            while stop < len(entries) and (stop == start or held + entries[stop].size <= batch):
                held += entries[stop].size
                stop += 1
            part = entries[start:stop]
            out = self.run("cat-file", "--batch", stdin="".join(f"{entry.oid}\n" for entry in part).encode())
            at = 0
            for entry in part:
                end = out.index(b"\n", at)
                size = int(out[at:end].rsplit(b" ", 1)[1])
                yield entry, out[end + 1 : end + 1 + size]
                at = end + size + 2
            start = stop

    def _ask(self, args: list[str], env: Mapping[str, str], stdin: bytes = b"") -> Answer:
        with tempfile.TemporaryFile() as source:
            source.write(stdin)
            source.seek(0)
            code, stdout, stderr = self._git.execute(
                ["git", *FLAGS, *args],
                istream=source,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                env=dict(env),
                start_new_session=True,
            )
        return Answer(code, stdout, stderr)


def _places(root: Path) -> _Places:
    """Where the repository of a work tree is.  Found without git, which the caller's GIT_* variables lead astray."""
    place = root / ".git"
    if place.is_file():
        named = place.read_text(errors="surrogateescape").removeprefix("gitdir:").strip()
        place = Path(os.path.normpath(root / named))
    shared = place / "commondir"
    if not shared.is_file():
        return _Places(place, place)
    return _Places(place, Path(os.path.normpath(place / shared.read_text(errors="surrogateescape").strip())))


def failed(command: str, answer: Answer) -> HtError:
    """The error for a git command that should have succeeded."""
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "no message")
    message = f"git {command} failed: {said}"
    if "File exists" in answer.stderr and ".lock" in answer.stderr:
        return Busy(message, hint="another git process holds the lock; if none runs, remove the lock file")
    if "No space left" in answer.stderr:
        return Prerequisite(message, hint="make room on the disk, then rerun")
    if "dubious ownership" in answer.stderr:
        return Prerequisite(
            message, hint="run as the repository's owner, or `git config --global --add safe.directory DIR`"
        )
    if "Permission denied" in answer.stderr or "unable to create" in answer.stderr.lower():
        return Prerequisite(message, hint="check who owns the repository")
    return HtError(message, hint="`git fsck` checks the repository")
