"""Planted attackers of kept states: nothing outside the tree is read or written, and every size is bounded."""

from __future__ import annotations

import contextlib
import marshal
import os
import stat
import zlib
from pathlib import Path

import pytest

from harnesstrain.core import packed
from harnesstrain.sandbox.local import LocalSandbox
from harnesstrain.sandbox.local_session import LocalSession
from tests.sandbox.states import ENVIRONMENT, key

pytestmark = pytest.mark.local


@pytest.fixture
def live(local: LocalSandbox) -> LocalSession:
    return local.open(ENVIRONMENT)


def test_no_link_leads_out_of_the_tree(local: LocalSandbox, live: LocalSession, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    tmp_path.chmod(0o755)
    for name in ("changes", "fs", "file", "d/deeper"):
        live.run(f"mkdir -p $(dirname {name}); ln -s {secret} {name}; ln -s {tmp_path} {name}.d; ln -s / {name}.root")
    name = key()
    with contextlib.closing(live):
        assert live.seal(name)
        [kept] = local.states.root.glob(f"*/{name}")
        assert b"canary" not in kept.read_bytes()
        with contextlib.closing(local.open(ENVIRONMENT, at=name)) as copy:
            assert copy.run("readlink file; cat file").stdout == f"{secret}\n".encode()
            assert copy.run("echo x > file.d/made").exit_code != 0
            copy.run("rm -rf file.d/ d/deeper.root/")
    assert secret.read_text() == "canary"
    assert list(tmp_path.iterdir()) == [secret]


def test_a_link_swapped_in_while_it_is_looked_at_is_not_followed(local: LocalSandbox, live: LocalSession) -> None:
    swap = "while :; do mkdir -p d; echo x > d/f; rm -rf d; ln -s /etc d; rm d; done >/dev/null 2>&1"
    with contextlib.closing(live):
        live.run(f"({swap}) & sleep 0.1", timeout=30)
        for _ in range(30):
            live.state()
            assert not live.seal(key())


@pytest.mark.parametrize(
    "command",
    [
        "head -c 300000000 /dev/zero | tr '\\0' x > big",
        'python3 -c "import os\nfor n in range(120000): os.close(os.open(str(n), 65))"',
        "python3 -c \"import os\nfor n in range(300): os.mkdir('d'); os.chdir('d')\"",
    ],
)
def test_what_is_too_large_is_not_kept(local: LocalSandbox, live: LocalSession, command: str) -> None:
    with contextlib.closing(live):
        assert live.run(command, timeout=120).exit_code == 0
        name = key()
        assert not live.seal(name)
        assert local.sealed([name]) is None
        assert not list(local.states.root.glob("part-*"))
        assert live.run("echo on").stdout == b"on\n"


def test_a_tree_with_a_device_is_not_packed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    (tmp_path / "tree").mkdir()
    os.mknod(tmp_path / "tree" / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    folder = os.open(tmp_path / "tree", os.O_RDONLY)
    try:
        with (tmp_path / "packed").open("wb") as out, pytest.raises(packed.Unfit, match="device"):
            packed.pack(folder, out, {}, newest_first=True, max_bytes=1000, max_entries=10)
    finally:
        os.close(folder)


@pytest.mark.parametrize("name", [b"..", b"../out", b"/out", b"", b"."])
def test_a_forged_name_leads_nowhere(tmp_path: Path, name: bytes) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("forged")
    (tmp_path / "target").mkdir()
    folder = os.open(tmp_path / "tree", os.O_RDONLY)
    with (tmp_path / "packed").open("wb") as out:
        packed.pack(folder, out, {}, newest_first=True, max_bytes=10, max_entries=10)
    os.close(folder)
    data, tail = (tmp_path / "packed").read_bytes(), packed.TRAILER.size
    form, n_bytes, n_index, n_facts, *sums = packed.TRAILER.unpack(data[-tail:])
    entries = marshal.loads(data[n_bytes : n_bytes + n_index])
    entries[1] = (0, name, *entries[1][2:])
    index, facts = marshal.dumps(entries, packed.MARSHAL), data[n_bytes + n_index : -tail]
    trailer = packed.TRAILER.pack(form, n_bytes, len(index), n_facts, sums[0], zlib.crc32(index), sums[2])
    (tmp_path / "packed").write_bytes(data[:n_bytes] + index + facts + trailer)
    file = os.open(tmp_path / "packed", os.O_RDONLY)
    with pytest.raises(packed.Damaged):
        packed.unpack(file, str(tmp_path / "target"), owners=False)
    os.close(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packed", "target", "tree"]
