"""Where the tasks of a panel come from, and where they lie once they were pulled.

[source]
repository = "https://…"   # a git repository
commit = "…"               # 40 hex: it pins every byte
path = "tasks"             # directory of the tasks in it; the repository itself when left out
format = "directories"     # or "swe-bench": one row an instance
digest = "…"               # of the tasks that the panel names, however they came; checked when they are pulled
bytes = 1234               # about what they take
images = "about 10 GB"     # for people: what their images take
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record
from harnesstrain.taskset.document import Document

KEYS = ("repository", "commit", "path", "format", "digest", "bytes", "images")
FORMATS = ("directories", "swe-bench")
TASKS = "tasks"
"""Directory of the tasks in a pulled data set."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Source(Record):
    """Where a data set is published."""

    repository: str
    commit: str
    """40 hex."""
    path: str = ""
    """Directory of the tasks in the repository."""
    format: Literal["directories", "swe-bench"] = "directories"
    digest: str | None = None
    """64 hex; None: nobody computed it, the commit pins the files."""
    bytes: int | None = None
    images: str | None = None

    def folder(self, name: str) -> Path:
        """Where the data set of panel `name` lies once it was pulled."""
        key = digest([self.repository, self.commit, self.path, self.format])
        plain = re.sub(r"[^\w.-]", "_", name)
        return datasets() / f"{plain}-{key[:12]}"


def datasets() -> Path:
    """The directory of pulled data sets."""
    return user_cache_path("harnesstrain") / "datasets"


def digest_tasks(found: Mapping[str, str]) -> str:
    """Digest of a data set, from the digest of each task by name."""
    return digest(sorted([name, one] for name, one in found.items()))


def parse_source(document: Document) -> Source | None:
    """The [source] table of a panel file.  Raises ConfigError with file and line."""
    table = document.table.get("source")
    if table is None:
        return None
    if not isinstance(table, Mapping):
        document.wrong("source is no table", ("source",), "write [source] with repository and commit")
    for key in table:
        if key not in KEYS:
            document.wrong(f"unknown key 'source.{key}'", ("source", key), f"known: {', '.join(KEYS)}")

    def text(key: str, default: str | None = None) -> Any:
        value = table.get(key, default)
        if value is not None and (not isinstance(value, str) or not value.isprintable()):
            document.wrong(f"source.{key} must be a string", ("source", key))
        return value

    repository, commit, path = text("repository"), text("commit"), text("path", "")
    if not repository:
        document.wrong("[source] has no repository", ("source",), 'write repository = "https://…"')
    if not commit or not _COMMIT.fullmatch(commit) or not int(commit, 16):
        document.wrong("source.commit must be 40 hexadecimal digits, of a commit", ("source", "commit"))
    if path.startswith("/") or ".." in path.split("/"):
        document.wrong("source.path lies outside the repository", ("source", "path"))
    form, pinned, size = text("format", FORMATS[0]), text("digest"), table.get("bytes")
    if form not in FORMATS:
        document.wrong(f"no format '{form}'", ("source", "format"), f"known: {', '.join(FORMATS)}")
    if pinned is not None and not _DIGEST.fullmatch(pinned):
        document.wrong("source.digest must be 64 hexadecimal digits", ("source", "digest"))
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        document.wrong("source.bytes must be a number of bytes", ("source", "bytes"))
    return Source(
        repository=repository,
        commit=commit,
        path=path.strip("/"),
        format=form,
        digest=pinned,
        bytes=size,
        images=text("images"),
    )
