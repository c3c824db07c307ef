"""A change as a patch: how it is captured, what its digest covers, and the ladder of ways to apply it.

A patch is bytes from end to end.  It is never decoded and never stripped: a context line may be a single space, a file
may hold NULs or carriage returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from harnesstrain.core.digests import digest_bytes
from harnesstrain.taskset.swebench.verdict import APPLIED

APPLY_FAILED = ">>>>> Patch Apply Failed"

START_REVISION = ("git", "rev-parse", "HEAD")
"""Run before an agent starts: what its change is a change to.  (An image's checkout has a commit of its own.)"""


@dataclass(frozen=True)
class Patch:
    """The bytes of a git diff."""

    data: bytes

    @property
    def empty(self) -> bool:
        """Whether it changes nothing, so that there is nothing to evaluate."""
        return not self.data

    @property
    def digest(self) -> str:
        """64 hex over every byte."""
        return digest_bytes(self.data)


def patch_of(change: bytes | str | None) -> Patch:
    """A patch as it can be applied: nothing when it is blank, else with a line end after its last line.

    A text stands for its UTF-8 bytes; bytes that were no UTF-8 and were read with `surrogateescape` come back.
    """
    data = change.encode("utf-8", "surrogateescape") if isinstance(change, str) else change or b""
    if not data.strip():
        return Patch(b"")
    return Patch(data if data.endswith(b"\n") else data + b"\n")


_CAPTURE = """\
cd {workdir} || exit 1
git config --global --add safe.directory {workdir}
index=$(mktemp -u)
trap 'rm -f "$index" "$index.lock"' EXIT
export GIT_INDEX_FILE="$index"
git {safe} read-tree {start} || exit 1
{{
  printf '.\\0'
  find . -path ./.git -prune -o -name .git -prune -print0 | sed -z 's|^\\./\\(.*\\)/\\.git$|:(exclude,literal)\\1|'
}} | git {safe} add --all --pathspec-from-file=- --pathspec-file-nul || exit 1
git {safe} diff --cached --binary --full-index --no-color --no-ext-diff --no-textconv --no-renames --no-relative \\
  --src-prefix=a/ --dst-prefix=b/ --ignore-submodules=none {start} >{into}
"""
_SAFE = "-c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.autocrlf=false -c core.safecrlf=false"


def capture_script(workdir: str, start: str, into: str) -> str:
    """Shell text that writes what changed in `workdir` since the commit `start` to the file `into`.

    Tracked, new, deleted and binary files count, committed or not; what git ignores and what lies in a repository
    inside the checkout does not.  The checkout's own index stays as it is.
    """
    return _CAPTURE.format(workdir=quote(workdir), start=quote(start), into=quote(into), safe=_SAFE)


@dataclass(frozen=True)
class Rung:
    """One way to apply a patch, tried when the one before failed."""

    name: str
    command: tuple[str, ...]
    """The patch's path follows."""


LADDER = (
    Rung("exact", ("git", "apply", "--verbose")),
    Rung("three-way", ("git", "apply", "--verbose", "--3way")),
    Rung("reject", ("git", "apply", "--verbose", "--reject")),
    Rung("fuzzy", ("patch", "--batch", "--forward", "--fuzz=5", "-p1", "-i")),
)
"""From strict to lenient.  A rung that leaves anything unapplied fails."""

RESTORE = (("git", "reset", "-q", "--hard"), ("git", "clean", "-fdq"))
"""Between rungs: a rung that failed may have left half of its work."""

ALREADY = ("git", "apply", "--check", "--reverse")
"""After the last rung: a change that is there already counts as applied."""


def apply_script(workdir: str, patch: str) -> str:
    """Shell text that climbs the ladder with the file `patch` in `workdir`.

    Exits 0 and prints the marker of an applied patch and the rung's name, or exits 1 and prints that of a failed one.
    """
    lines = [f"cd {quote(workdir)} || exit 1", f"git config --global --add safe.directory {quote(workdir)}"]
    for number, rung in enumerate(LADDER):
        if number:
            lines += [" ".join(command) for command in RESTORE]
        lines += _try(rung.name, rung.command, patch)
    lines += [" ".join(command) for command in RESTORE]
    lines += _try("already", ALREADY, patch)
    return "\n".join([*lines, f"echo '{APPLY_FAILED}'", "exit 1", ""])


def _try(name: str, command: tuple[str, ...], patch: str) -> list[str]:
    return [f"if {' '.join(command)} {quote(patch)}; then", f"  echo '{APPLIED} ({name})'", "  exit 0", "fi"]
