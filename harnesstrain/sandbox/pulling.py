"""Getting an image that the engine lacks: from an archive of this machine, else from its registry.

An archive is what `docker save` wrote, or the tar of a root file system.  It lies in a directory that the user names,
and is called like the image with `/`, `:` and `@` as `_`: `debian_12-slim.tar`, `.tar.gz` or `.tar.xz`.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.sandbox.engine import said, translated, troubles

TRIES = 3
PAUSE = 1.0
"""Seconds before the second try; doubles from there."""
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz")
FINAL = re.compile(
    r"not found|denied|unauthorized|authentication required|manifest unknown|no matching manifest|does not exist"
    r"|invalid reference|repository name|no such image|no space left",
    re.IGNORECASE,
)
"""What an engine says that it would say again."""


def archive_name(image: str) -> str:
    """The file name, without suffix, of an image's archive."""
    return re.sub("[/:@]", "_", image)


def archive_of(folder: Path | None, image: str) -> Path | None:
    """The archive of `image` in `folder`, if there is one."""
    if folder is None:
        return None
    candidates = (folder / f"{archive_name(image)}{suffix}" for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def load(client: Any, image: str, archive: Path) -> None:
    """Hand an archive to the engine as `image`.  Raises SandboxFailure."""
    from docker.utils import parse_repository_tag

    with translated(f"loading {archive}"), archive.open("rb") as data:
        if _saved(archive):
            for item in client.api.load_image(data):
                if item.get("error"):
                    raise SandboxFailure(f"{archive} cannot be loaded: {item['error']}")
        else:
            repository, tag = parse_repository_tag(image)
            client.api.import_image_from_data(data, repository=repository, tag=tag or "latest")


def _saved(archive: Path) -> bool:
    """Whether `docker save` wrote it.  Raises SandboxFailure when it is no archive."""
    try:
        with tarfile.open(archive) as tar:
            return any(member.name.removeprefix("./") == "manifest.json" for member in tar)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SandboxFailure(f"{archive} is not an archive: {error}") from error


def pull(client: Any, image: str, *, pause: Callable[[float], None]) -> None:
    """Pull `image`, a name with a tag or a digest; what may pass is tried again.

    Raises SandboxFailure with the engine's own reason.  `pause(seconds)` waits between two tries.
    """
    from docker.utils import parse_repository_tag
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    repository, tag = parse_repository_tag(image)
    attempts = Retrying(
        stop=stop_after_attempt(TRIES),
        wait=wait_exponential(multiplier=PAUSE),
        retry=retry_if_exception(lambda error: not FINAL.search(said(error))),
        sleep=pause,
        reraise=True,
    )
    final: tuple[type[Exception], ...] = (*troubles(), _Refused)
    try:
        attempts(_pull_once, client, repository, tag or "latest")
    except final as error:
        hint = "check the name, `docker login`, the network; or put an archive into the directory `sandbox.archives`"
        raise SandboxFailure(f"image {image} cannot be pulled: {said(error)}", hint=hint) from error


class _Refused(Exception):
    """The engine said so in the middle of its answer."""


def _pull_once(client: Any, repository: str, tag: str) -> None:
    for item in client.api.pull(repository, tag=tag, stream=True, decode=True):
        if item.get("error"):
            raise _Refused(str(item["error"]))
