"""A new harness repo: the shipped baseline harness, the SDK beside it, one first commit."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harnesstrain.core.errors import ConfigError, Prerequisite, UsageError
from harnesstrain.core.resources import shipped
from harnesstrain.core.scratch import remove
from harnesstrain.harness import manifest as manifests
from harnesstrain.harness.capture import CACHES, Author
from harnesstrain.harness.git import Git

BRANCH = "main"
"""The branch of a new harness repo."""

SUBJECT = "Start with the baseline harness"


def create(
    directory: Path, *, source: Path | None = None, extra: Mapping[str, bytes] | None = None, branch: str = BRANCH
) -> str:
    """Make `directory` a harness repo; returns its first commit.

    `source`: a harness tree instead of the shipped baseline.  `extra`: more files, by path, committed with it.
    The tree is made aside and moved into place, so that an interrupted call leaves nothing half done.
    Raises UsageError when the directory is not empty, Prerequisite when it cannot be written.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is not an empty directory", hint="choose a new directory")
    source = source or shipped("bootstrap") / "harness"
    manifests.load(source)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.resolve().parent))
    except OSError as error:
        raise Prerequisite(
            f"cannot write in {directory.parent}: {error.strerror}", hint="choose another place"
        ) from error
    try:
        tree = aside / "tree"
        _fill(tree, source, extra or {})
        commit = _commit(tree, branch)
        _move(tree, directory)
        return commit
    except OSError as error:
        message = f"cannot write {directory}: {error.strerror}"
        raise Prerequisite(message, hint="check the disk, then rerun") from error
    finally:
        remove(aside)


def sdk_source() -> Path:
    """The SDK file that is vendored as ht_sdk.py."""
    spec = importlib.util.find_spec("harnesstrain.sdk")
    if spec is None or spec.origin is None:
        raise Prerequisite("the harness SDK is missing", hint="reinstall harnesstrain")
    return Path(spec.origin)


def _fill(tree: Path, source: Path, extra: Mapping[str, bytes]) -> None:
    shutil.copytree(source, tree, symlinks=True, ignore=shutil.ignore_patterns(*CACHES, ".git", ".ht", manifests.SDK))
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    (tree / manifests.SDK).write_bytes(sdk_source().read_bytes())
    for name, data in extra.items():
        target = tree / name
        if target.exists():
            raise ConfigError(f"the template has a file {name} already", hint="leave it out")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _commit(tree: Path, branch: str) -> str:
    start = Git(tree, inside=False)
    start.run(
        "init", "--quiet", "--template=", f"--initial-branch={branch}", str(tree), env={"GIT_DIR": str(tree / ".git")}
    )
    git = Git(tree)
    git.run("-c", "core.autocrlf=false", "-c", "core.excludesFile=/dev/null", "add", "--all")
    name, email = git.config("user.name"), git.config("user.email")
    author = Author(name, email) if name and email else Author()
    env = {
        "GIT_AUTHOR_NAME": author.name,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_COMMITTER_NAME": author.name,
        "GIT_COMMITTER_EMAIL": author.email,
    }
    git.run("commit", "--quiet", "--no-verify", "--message", SUBJECT, env=env)
    return git.line("rev-parse", "HEAD")


def _move(tree: Path, directory: Path) -> None:
    if not directory.exists():
        tree.rename(directory)
        return
    for child in sorted(tree.iterdir(), key=lambda path: path.name == ".git"):
        child.rename(directory / child.name)
