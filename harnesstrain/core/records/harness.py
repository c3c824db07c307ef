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
