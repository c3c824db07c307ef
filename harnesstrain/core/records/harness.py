"""A harness and its versions."""

from __future__ import annotations

from pydantic import Field

from harnesstrain.core.records.base import Record


class Manifest(Record):
    """`harness.toml`, validated."""

    name: str
    command: tuple[str, ...]
    """Speaks the protocol on stdio; started in the worktree."""
    surface: tuple[str, ...]
    """Globs of files that a candidate may change."""
    visible: tuple[str, ...] = ("**",)
    """Globs of files that an estimator may read."""
    check: tuple[str, ...] = ()
    """Must pass before a candidate is measured; runs in the jail."""
    check_timeout: float = 300.0
    """Seconds."""
    environment: str | None = None
    """A virtual environment, mounted read-only into the jail."""
    modules: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Names for parts of the surface."""


class HarnessVersion(Record):
    """One commit of a harness repo."""

    commit: str
    """40 hex."""
    manifest: Manifest
    sdk_digest: str
    """Digest of the vendored ht_sdk.py at that commit."""
    subject: str = ""
    """First line of the commit message."""


class Watch(Record):
    """Lines of a Python file that belong together: one statement that a commit changed."""

    first: int
    """From 1, in the new file."""
    last: int
    when: str
    """`run`: counts when one of the lines runs.  `import`: the same, and at once when the module was imported already.
    `call`: counts when the function that starts at `first` is entered."""


class Changes(Record):
    """What a commit changed against another one, as far as it can be watched while the harness runs."""

    base: str
    """The commit it is compared with."""
    files: dict[str, tuple[Watch, ...]]
    """By path.  A file that is no Python counts when it is opened, a directory (`a/b/`) when it is listed: no lines."""

    def names(self) -> frozenset[str]:
        """What a harness may tell of: `PATH:FIRST` of each watch, and each path without lines."""
        lines = {f"{path}:{one.first}" for path, watches in self.files.items() for one in watches}
        return frozenset(lines | {path for path, watches in self.files.items() if not watches})
