"""tar and zip archives, laid out: files, directories and links that stay inside, nothing else."""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.pull.laying import Layout

MAX_BYTES = 64 << 30
"""What an archive may take when it is unpacked."""

_CHUNK = 1 << 20
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)
_CUT = "it is cut off: a tar ends with two blocks of zeros"
_HINT = "fetch it again; tar (gz, bz2, xz) and zip are understood"


def is_archive(path: Path) -> bool:
    """Whether the file is a tar or zip archive, by its content."""
    try:
        return path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))
    except OSError:
        return False


def unpack(path: Path, target: Path) -> int:
    """Lay out an archive in `target`; returns bytes written.

    Raises ConfigError: damaged, a name or a link that leaves it, a device, more than it said, more than MAX_BYTES.
    """
    layout = Layout(target, str(path))
    try:
        if zipfile.is_zipfile(path):
            _unzip(path, layout)
        else:
            _untar(path, layout)
    except _DAMAGED as error:
        raise ConfigError(f"cannot unpack {path}: {error}", hint=_HINT) from None
    except OSError as error:
        raise ConfigError(f"cannot unpack {path}: {error.strerror or error}", hint=_HINT) from None
    layout.finish()
    return layout.bytes


class _Member(tarfile.TarInfo):
    """A member that must be there or be the end: by itself, `tarfile` takes whatever else it reads for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """The member of a header block.  Raises ReadError where it is cut off or no header."""
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) < tarfile.BLOCKSIZE:
                raise tarfile.ReadError(_CUT) from None
            if any(buf):
                raise tarfile.ReadError(f"something else is where a member's header belongs ({error})") from None
            raise


def _end(tar: tarfile.TarFile) -> None:
    """Raises ReadError unless a second block of zeros is next, and nothing but zeros after it."""
    source = tar.fileobj
    assert source is not None
    chunk = source.read(tarfile.BLOCKSIZE)
    if len(chunk) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError(_CUT)
    while chunk:
        if chunk.count(0) != len(chunk):
            msg = "something follows its end"
            raise tarfile.ReadError(msg)
        chunk = source.read(_CHUNK)


def _untar(path: Path, layout: Layout) -> None:
    with tarfile.open(path, tarinfo=_Member) as tar:
        for member in tar:
            if member.isdir():
                if member.name not in (".", "./", ""):
                    layout.directory(member.name)
            elif member.issym():
                layout.link(member.name, member.linkname)
            elif member.isreg():
                _bound(path, layout, member.size)
                source = tar.extractfile(member)
                assert source is not None
                layout.file(member.name, _read(source, member.size, path), executable=bool(member.mode & 0o100))
            else:
                kind = "hard link" if member.islnk() else "device or pipe"
                raise ConfigError(f"{path} has a {kind}: {member.name}", hint="pack plain files")
        _end(tar)


def _unzip(path: Path, layout: Layout) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            if member.is_dir():
                layout.directory(member.filename)
                continue
            _bound(path, layout, member.file_size)
            with archive.open(member) as source:
                if stat.S_ISLNK(mode):
                    target = b"".join(_read(source, min(member.file_size, 4096), path))
                    layout.link(member.filename, target.decode("utf-8", "surrogateescape"))
                else:
                    data = _read(source, member.file_size, path)
                    layout.file(member.filename, data, executable=bool(mode & 0o100))


def _bound(path: Path, layout: Layout, size: int) -> None:
    if layout.bytes + size > MAX_BYTES:
        raise ConfigError(f"{path} unpacks to more than {MAX_BYTES >> 30} GB", hint="unpack it yourself")


def _read(source: IO[bytes], size: int, path: Path) -> Iterator[bytes]:
    """At most `size` bytes, as the archive's own table says."""
    left = size
    while chunk := source.read(_CHUNK):
        left -= len(chunk)
        if left < 0:
            raise ConfigError(f"{path} holds more than it says", hint=_HINT)
        yield chunk
    if left:
        raise ConfigError(f"{path} ends too early", hint=_HINT)
