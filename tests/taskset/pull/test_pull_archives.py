"""What archives hold, laid out: nothing ever lands outside the directory."""

from __future__ import annotations

import gzip
import io
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.pull import Layout, inside, is_archive, unpack

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> Member:
    """A member of a tar archive."""
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.mode = kind, link, mode
    found.size = len(data) if kind == tarfile.REGTYPE else 0
    return found, data


@pytest.fixture
def tar(tmp_path: Path) -> Callable[..., Path]:
    """Writes a tar archive."""

    def write(*members: Member, mode: str = "w:gz") -> Path:
        path = tmp_path / "set.tar"
        with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
            for info, data in members:
                archive.addfile(info, io.BytesIO(data))
        return path

    return write


@pytest.mark.parametrize("mode", ["w:", "w:gz", "w:bz2", "w:xz"])
def test_files_links_and_modes_of_a_tar(tar: Callable[..., Path], tmp_path: Path, mode: str) -> None:
    path = tar(
        member("./a/run.sh", b"#!/bin/sh\n", mode=0o4755),
        member("./a/data", b"\0\xff" * 9, mode=0o600),
        member("./a/link", kind=tarfile.SYMTYPE, link="data"),
        member("./a/up", kind=tarfile.SYMTYPE, link="../b/x"),
        member("./b/x"),
        mode=mode,
    )
    assert is_archive(path)
    assert unpack(path, tmp_path / "out") == 10 + 18 + 1
    out = tmp_path / "out"
    assert (out / "a/data").read_bytes() == b"\0\xff" * 9
    assert (out / "a/link").readlink() == Path("data")
    assert [stat.S_IMODE((out / name).stat().st_mode) for name in ("a/run.sh", "a/data")] == [0o755, 0o644]


@pytest.mark.parametrize(
    "members",
    [
        [member("../out.txt")],
        [member("/etc/out.txt")],
        [member("a/../../out.txt")],
        [member("a\\..\\..\\out.txt")],
        [member("a", kind=tarfile.SYMTYPE, link="/etc/passwd")],
        [member("a", kind=tarfile.SYMTYPE, link="../../x")],
        [member("a", kind=tarfile.SYMTYPE, link="..")],
        [member("a", kind=tarfile.SYMTYPE, link="b"), member("a/x")],
        [member("a/x"), member("a", kind=tarfile.SYMTYPE, link="b")],
        [member("a", kind=tarfile.SYMTYPE, link="b"), member("b", kind=tarfile.SYMTYPE, link="a")],
        [member("d/up", kind=tarfile.SYMTYPE, link=".."), member("l", kind=tarfile.SYMTYPE, link="d/up/../x")],
        [member("a", kind=tarfile.LNKTYPE, link="/etc/passwd")],
        [member("a", kind=tarfile.CHRTYPE)],
        [member("a", kind=tarfile.FIFOTYPE)],
        [member("a"), member("./a")],
        [member("a"), member("a/b")],
    ],
)
def test_hostile_tars_are_refused_and_leave_nothing_outside(
    tar: Callable[..., Path], tmp_path: Path, members: list[Member]
) -> None:
    path = tar(*members)
    (tmp_path / "place").mkdir()
    with pytest.raises(ConfigError) as caught:
        unpack(path, tmp_path / "place" / "out")
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert sorted(one.name for one in tmp_path.iterdir()) == ["place", "set.tar"]
    assert [one.name for one in (tmp_path / "place").iterdir()] == ["out"]


def test_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        script = zipfile.ZipInfo("top/run.sh")
        script.external_attr = 0o100755 << 16
        archive.writestr(script, "#!/bin/sh\n")
        link = zipfile.ZipInfo("top/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "run.sh")
    assert is_archive(path)
    unpack(path, tmp_path / "out")
    assert (tmp_path / "out/top/link").resolve() == (tmp_path / "out/top/run.sh")
    assert (tmp_path / "out/top/run.sh").stat().st_mode & 0o111


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_a_hostile_zip(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(ConfigError, match="outside of it"):
        unpack(tmp_path / "set.zip", tmp_path / "out")


def test_a_damaged_archive(tar: Callable[..., Path], tmp_path: Path) -> None:
    path = tar(member("a", b"x" * 100_000), mode="w:")
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(ConfigError, match="cannot unpack|ends too early"):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_is_whole_wherever_it_is_cut(tmp_path: Path, format: int) -> None:
    path, whole = tmp_path / "set.tar", io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=format) as archive:
        for name in ("a" * 90 + "/x", "b" * 90):
            info, data = member(name)
            archive.addfile(info, io.BytesIO(data))
    content = whole.getvalue()
    end = len(content.rstrip(b"\0"))
    end += -end % 512
    for size in (*range(512, end + 1024, 256), end + 1023):
        path.write_bytes(content[:size])
        with pytest.raises(ConfigError, match="set.tar") as caught:
            unpack(path, tmp_path / f"cut{size}")
        assert "\n" not in caught.value.message
    for size in (end + 1024, end + 1500, len(content)):
        path.write_bytes(content[:size])
        assert unpack(path, tmp_path / f"whole{size}") == 2


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_tar_with_something_else_where_a_header_belongs(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path, whole = tmp_path / "set.tar", io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name in "ab":
            info, data = member(name)
            archive.addfile(info, io.BytesIO(data))
    content = whole.getvalue()
    for garbled in (
        content[:1024] + b"\x93" * 512 + content[1536:],
        content[:1024] + b"\x93" * 100,
        content[:1024] + bytes(512) + content[1024:],
        content[:1024] + bytes(1024) + content[1024:],
        content[:1024] + bytes(512),
    ):
        path.write_bytes(compress(garbled))
        with pytest.raises(ConfigError, match="cannot unpack .*(header belongs|cut off|follows its end)"):
            unpack(path, tmp_path / "out")
        shutil.rmtree(tmp_path / "out")


@pytest.mark.parametrize(
    "writer", [("tar", "-cf"), ("tar", "-b1", "-cf"), ("bsdtar", "-cf"), ("tar", "-H", "v7", "-cf")]
)
def test_what_tar_programs_write_is_whole(tmp_path: Path, writer: tuple[str, ...]) -> None:
    if shutil.which(writer[0]) is None:
        pytest.skip(f"no {writer[0]}")
    (tmp_path / "in/d").mkdir(parents=True)
    (tmp_path / "in/d/a").write_bytes(b"x" * 512)
    (tmp_path / "in/d/b").write_bytes(b"")
    subprocess.run([*writer, str(tmp_path / "set.tar"), "-C", str(tmp_path / "in"), "d"], check=True)
    assert unpack(tmp_path / "set.tar", tmp_path / "out") == 512


def test_what_git_archive_writes_is_whole(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "a").write_bytes(b"x")
    for words in (["init", "-q"], ["add", "a"], ["commit", "-qm", "a"], ["archive", "-o", "set.tar.gz", "HEAD"]):
        subprocess.run([*git, *words], check=True)
    assert unpack(tmp_path / "set.tar.gz", tmp_path / "out") == 1


def test_a_gz_whose_checksum_is_wrong(tar: Callable[..., Path], tmp_path: Path) -> None:
    path = tar(member("a"))
    content = path.read_bytes()
    path.write_bytes(content[:-8] + bytes([content[-8] ^ 1]) + content[-7:])
    with pytest.raises(ConfigError, match="cannot unpack"):
        unpack(path, tmp_path / "out")


@given(st.text("a./\\\0 é", max_size=12))
def test_a_name_stays_inside_or_is_none(name: str) -> None:
    clean = inside(name)
    if clean is not None:
        assert not set(clean.split("/")) & {"", ".", ".."}
        assert not clean.startswith("/")


def test_no_file_is_written_through_a_link_that_is_there(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "out", "it")
    (tmp_path / "out/a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        layout.file("a", [b"x"])
    assert not (tmp_path / "elsewhere").exists()
