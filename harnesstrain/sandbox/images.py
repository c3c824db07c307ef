"""Images of the Docker engine: a Dockerfile is built once per content and tagged by digest; others are fetched once."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import ConfigError, SandboxFailure
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.build import context_entries
from harnesstrain.sandbox.engine import translated
from harnesstrain.sandbox.layers import exclusive
from harnesstrain.sandbox.pulling import archive_of, load, pull

REPOSITORY = "harnesstrain/environment"
BUILDER = 1
SAID_LINES = 200
"""How much of a build's output is kept for its error."""
FIXED_TIME = 946684800
"""Modification time of everything in a build context: the same image on every machine."""
_ARG = re.compile(r"^\s*ARG\s+(\w+)=[\"']?([^\s\"']*)", re.IGNORECASE | re.MULTILINE)
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """How an image is built: a directory with a Dockerfile, and what a compose file may say about it."""

    context: Path
    dockerfile: str = "Dockerfile"
    """Relative to the context."""
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    """The stage; None: the last one."""
    timeout: float = 600.0
    """Seconds."""


class Images:
    """Builds, pulls and finds images.  Thread-safe; who wants the same one waits for it, also in another process."""

    def __init__(
        self,
        client: Any,
        locks: Path,
        network: str | None,
        archives: Path | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`locks`: directory for lock files; `network`: of RUN instructions, None the engine's default.

        `archives`: directory of images as files; `pause(seconds)`: how to wait between two tries.
        """
        self._client = client
        self._locks = locks
        self._network = network
        self._archives = archives
        self._pause = pause
        self._work = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._known: dict[tuple[str, str], str] = {}

    def obtain(self, environment: Environment) -> dict[str, Any]:
        """What the engine says about the environment's image, built or pulled if it is not there.

        The image of a digest stays the same one as long as this object lives.  Raises SandboxFailure with the end of
        the build's output.
        """
        if environment.context is None:
            assert environment.image is not None
            return self.named(environment.image)
        key = (environment.digest, str(environment.context)) if environment.digest else None
        found = self._find(self._known[key]) if key in self._known else None
        if found is None:
            found = self.built(Recipe(environment.context, timeout=environment.build_timeout))
            if key is not None:
                self._known[key] = found["Id"]
        return found

    def known(self, environment: Environment) -> dict[str, Any] | None:
        """What the engine says about the environment's image; None where it is not there.  Fetches nothing."""
        if environment.context is None:
            return self._find(environment.image) if environment.image else None
        return self._find(self.tag(Recipe(environment.context)))

    def named(self, name: str) -> dict[str, Any]:
        """What the engine says about an image, fetched if it is not there.  Raises SandboxFailure."""
        found = self._find(name)
        if found:
            return found
        with self._alone(digest(["image", name])[:24]):
            found = self._find(name)
            if not found:
                archive = archive_of(self._archives, name)
                if archive is not None:
                    load(self._client, name, archive)
                else:
                    pull(self._client, name, pause=self._pause)
                found = self._find(name)
        if not found:
            raise SandboxFailure(f"the engine has fetched {name} and does not know it")
        return found

    def built(self, recipe: Recipe) -> dict[str, Any]:
        """What the engine says about a built image.  Raises SandboxFailure, ConfigError."""
        for base in _bases(recipe):
            if archive_of(self._archives, base) is not None:
                self.named(base)
        tag = self.tag(recipe)
        found = self._find(tag)
        if found:
            return found
        with self._alone(tag.rpartition(":")[2]):
            found = self._find(tag)
            if not found:
                self._build(recipe, tag)
                found = self._find(tag)
        if not found:
            raise SandboxFailure(f"the engine built {tag} and does not know it")
        return found

    def tag(self, recipe: Recipe) -> str:
        """The name of a recipe's image: covers the context's bytes and the base images as they are here."""
        entries = [[e.kind, e.path, e.mode, digest_bytes(e.data)] for e in context_entries(recipe.context)]
        known = [[base, (self._find(base) or {}).get("Id", "")] for base in _bases(recipe)]
        parts: list[Any] = [BUILDER, entries, known]
        if (recipe.dockerfile, recipe.target) != ("Dockerfile", None) or recipe.args:
            parts.append([recipe.dockerfile, dict(recipe.args), recipe.target])
        return f"{REPOSITORY}:{digest(parts)[:24]}"

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Nobody else makes `name` meanwhile, and this process makes no more at once than it has processors."""
        with exclusive(self._locks, name), self._work:
            yield

    def _find(self, name: str) -> dict[str, Any] | None:
        from docker.errors import ImageNotFound, NotFound

        with translated(f"looking for image {name}"):
            try:
                found: dict[str, Any] = self._client.api.inspect_image(name)
            except (ImageNotFound, NotFound):
                return None
        return found

    def _build(self, recipe: Recipe, tag: str) -> None:
        deadline = time.monotonic() + recipe.timeout
        said: list[str] = []
        with translated(f"building {recipe.context}"):
            stream = self._client.api.build(
                fileobj=io.BytesIO(_context_tar(recipe.context)),
                custom_context=True,
                encoding=None,
                tag=tag,
                dockerfile=recipe.dockerfile,
                buildargs=dict(recipe.args),
                target=recipe.target,
                rm=True,
                forcerm=True,
                decode=True,
                network_mode=self._network,
                timeout=int(recipe.timeout) + 1,
                labels={"harnesstrain.environment": "1"},
            )
            for item in stream:
                said = [*said[-SAID_LINES:], *(text for text in (item.get("stream"), item.get("error")) if text)]
                if item.get("error"):
                    tail = "".join(said).strip()[-500:]
                    raise SandboxFailure(f"the Dockerfile of {recipe.context} does not build: {tail}")
                if time.monotonic() > deadline:
                    raise SandboxFailure(f"building {recipe.context} took longer than {recipe.timeout:g} s")


def _bases(recipe: Recipe) -> list[str]:
    """What FROM names, its variables replaced by what ARG says; names with others are left out."""
    text = _dockerfile(recipe.context / recipe.dockerfile)
    values = {**dict(_ARG.findall(text)), **recipe.args}
    names = {
        _VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), name) for name in _FROM.findall(text)
    }
    return sorted(name for name in names if "$" not in name)


def _dockerfile(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error


def _context_tar(context: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for entry in context_entries(context):
            member = tarfile.TarInfo(entry.path)
            member.mode, member.mtime = entry.mode, FIXED_TIME
            if entry.kind == "D":
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
            elif entry.kind == "L":
                member.type, member.linkname = tarfile.SYMTYPE, entry.data.decode()
                tar.addfile(member)
            else:
                member.size = len(entry.data)
                tar.addfile(member, io.BytesIO(entry.data))
    return buffer.getvalue()
