"""Source: the model hub.  One file over HTTP, resumed where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harnesstrain.llm.models.catalogue import Entry

CONNECT = 4.0
"""Seconds to wait for a connection: a hub that cannot be reached is passed over quickly."""

SILENCE = 30.0
"""Seconds without a byte after which the source is given up."""


class SourceFailed(Exception):
    """This source could not give the file; says why in one sentence."""


def fetch(entry: Entry, target: Path, progress: Callable[[int], None]) -> None:
    """Download the model's file to `target`, continuing what is there.  `progress` gets the bytes had so far.

    Raises SourceFailed.  The bytes are not checked here.
    """
    import httpx

    have = target.stat().st_size if target.exists() else 0
    if have >= entry.size:
        target.unlink()
        have = 0
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    timeout = httpx.Timeout(SILENCE, connect=CONNECT)
    try:
        with (
            httpx.Client(timeout=timeout, follow_redirects=True) as client,
            client.stream("GET", entry.url, headers=headers) as response,
        ):
            if response.status_code not in (200, 206):
                raise SourceFailed(f"the model hub answered {response.status_code}")
            have = have if response.status_code == 206 else 0
            with target.open("ab" if have else "wb") as file:
                for block in response.iter_bytes():
                    have += len(block)
                    if have > entry.size:
                        raise SourceFailed("the model hub sent more than the file")
                    file.write(block)
                    progress(have)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = str(error) or type(error).__name__
        raise SourceFailed(f"the model hub cannot be reached ({said})") from error
    if have != entry.size:
        raise SourceFailed(f"the model hub sent {have} of {entry.size} bytes")
