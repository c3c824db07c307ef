"""Applying a patch file to a worktree, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from harnesstrain.core.errors import ConfigError
from harnesstrain.harness.git import Git


def apply_patch(worktree: Path, patch: Path) -> None:
    """Apply `patch` (git or plain unified diff, mail headers allowed) to the files in `worktree`.

    Nothing outside `worktree` can be touched, and nothing is touched when a hunk does not fit.
    Raises ConfigError when it cannot be read, holds no change or does not apply.
    """
    try:
        data = patch.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read patch {patch}: {error.strerror}", hint="check the path") from error
    answer = Git(worktree, inside=False).ask("apply", "--whitespace=nowarn", "-", stdin=data)
    if answer.code:
        lines = [line.removeprefix("error: ") for line in answer.stderr.splitlines() if line.strip()]
        message = f"patch {patch.name} does not apply: {lines[0] if lines else 'no message'}"
        raise ConfigError(message, hint="rebase the patch on the current baseline", patch=str(patch))
