"""Content-addressed files that records name, such as an estimator's transcript: `blobs/ab/abcd….zst`."""

from __future__ import annotations

from pathlib import Path

import zstandard

from harnesstrain.core.digests import digest_bytes
from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.ids import short
from harnesstrain.store import files

SUFFIX = ".zst"


def blob_path(folder: Path, digest: str) -> Path:
    """Where a blob lies."""
    return folder / digest[:2] / f"{digest}{SUFFIX}"


def put(folder: Path, data: bytes) -> str:
    """Keep `data`; its sha256.  A blob that is there already is not written again.  Raises Prerequisite."""
    digest = digest_bytes(data)
    path = blob_path(folder, digest)
    if not path.exists():
        files.write(path, zstandard.ZstdCompressor(level=6).compress(data))
    return digest


def get(folder: Path, digest: str) -> bytes:
    """The bytes of a blob.  Raises NotFound or StoreCorrupt."""
    try:
        packed = blob_path(folder, digest).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no blob '{short(digest)}' in the store", hint="`ht fsck` lists missing files") from None
    try:
        data = zstandard.ZstdDecompressor().decompress(packed)
    except zstandard.ZstdError as error:
        raise _damaged(digest) from error
    if digest_bytes(data) != digest:
        raise _damaged(digest)
    return data


def _damaged(digest: str) -> StoreCorrupt:
    return StoreCorrupt(f"blob '{short(digest)}' is damaged", hint="`ht fsck` lists all damage")
