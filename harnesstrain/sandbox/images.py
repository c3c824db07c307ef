"""Images of the Docker engine: a task's Dockerfile built once per content, tagged by digest."""

from __future__ import annotations

import io
import re
import tarfile
import time
from pathlib import Path
from typing import Any

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import ConfigError, SandboxFailure
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.build import context_entries
from harnesstrain.sandbox.engine import translated
from harnesstrain.sandbox.layers import exclusive

REPOSITORY = "harnesstrain/environment"
BUILDER = 1
FIXED_TIME = 946684800
"""Modification time of everything in a build context: the same image on every machine."""
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)


class Images:
    """Builds and finds images.  Thread-safe; builds of one digest wait for each other, also across processes."""

    def __init__(self, client: Any, locks: Path, network: str | None) -> None:
        """`locks`: directory for lock files; `network`: of RUN instructions, None the engine's default."""
        self._client = client
        self._locks = locks
        self._network = network

    def obtain(self, environment: Environment) -> dict[str, Any]:
        """What the engine says about the environment's image, built or pulled if it is not there.

        Raises SandboxFailure with the end of the build's output.
        """
        if environment.context is None:
            assert environment.image is not None
            return self._find(environment.image) or self._pull(environment.image)
        tag = f"{REPOSITORY}:{self._key(environment)[:24]}"
        found = self._find(tag)
        if found:
            return found
        with exclusive(self._locks, tag.rpartition(":")[2]):
            found = self._find(tag)
            if not found:
                self._build(environment, tag)
                found = self._find(tag)
        if not found:
            raise SandboxFailure(f"the engine built {tag} and does not know it")
        return found

    def _key(self, environment: Environment) -> str:
        """Covers the context's bytes and the base images as they are here."""
        assert environment.context is not None
        entries = [[e.kind, e.path, e.mode, digest_bytes(e.data)] for e in context_entries(environment.context)]
        bases = sorted(set(_FROM.findall(_dockerfile(environment.context))))
        known = [[base, (self._find(base) or {}).get("Id", "")] for base in bases]
        return digest([BUILDER, entries, known])

    def _find(self, name: str) -> dict[str, Any] | None:
        from docker.errors import ImageNotFound, NotFound

        with translated(f"looking for image {name}"):
            try:
                found: dict[str, Any] = self._client.api.inspect_image(name)
            except (ImageNotFound, NotFound):
                return None
        return found

    def _pull(self, name: str) -> dict[str, Any]:
        repository, _, tag = name.rpartition(":") if ":" in name.rsplit("/", 1)[-1] else (name, "", "latest")
        with translated(f"pulling image {name}"):
            self._client.api.pull(repository, tag)
        found = self._find(name)
        if not found:
            raise SandboxFailure(f"the engine pulled {name} and does not know it")
        return found

    def _build(self, environment: Environment, tag: str) -> None:
        assert environment.context is not None
        deadline = time.monotonic() + environment.build_timeout
        said: list[str] = []
        with translated(f"building {environment.context}"):
            stream = self._client.api.build(
                fileobj=io.BytesIO(_context_tar(environment.context)),
                custom_context=True,
                encoding=None,
                tag=tag,
                rm=True,
                forcerm=True,
                decode=True,
                network_mode=self._network,
                timeout=int(environment.build_timeout) + 1,
                labels={"harnesstrain.environment": "1"},
            )
            for item in stream:
                said += [text for text in (item.get("stream"), item.get("error")) if text]
                if item.get("error"):
                    tail = "".join(said).strip()[-500:]
                    raise SandboxFailure(f"the Dockerfile of {environment.context} does not build: {tail}")
                if time.monotonic() > deadline:
                    raise SandboxFailure(
                        f"building {environment.context} took longer than {environment.build_timeout:g} s"
                    )


def _dockerfile(context: Path) -> str:
    try:
        return (context / "Dockerfile").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{context / 'Dockerfile'} cannot be read: {error}") from error


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
