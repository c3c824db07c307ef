"""Changes as patches: captured and applied by a real git, whatever bytes they hold."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.taskset.swebench.patches import apply_script, capture_script, patch_of

Make = Callable[[str], "Checkout"]
LINES = [f"line {number}\n" for number in range(1, 21)]
FILES: dict[str, bytes] = {
    "text.py": "".join(LINES).encode(),
    "crlf.txt": b"one\r\ntwo\r\n",
    "latin.txt": b"caf\xe9\n",
    "nul.bin": b"a\0b\n",
    "gone.txt": b"going\n",
    ".gitignore": b"*.log\n",
}


class Checkout:
    """A git repository with one commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        for name, data in FILES.items():
            (root / name).write_bytes(data)
        self.git("init", "-q")
        self.commit()
        self.start = self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments: str) -> str:
        """Run git; returns what it printed."""
        command = ["git", "-c", "user.name=u", "-c", "user.email=u@example.org", *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout

    def commit(self) -> None:
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "-qm", "x")

    def sh(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run a shell text with a home of its own."""
        home = self.root.parent
        env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C.UTF-8"}
        return subprocess.run(["sh", "-c", text], env=env, capture_output=True, text=True, check=False, cwd="/")

    def capture(self) -> bytes:
        """What changed since the start."""
        into = self.root.parent / "change patch"
        done = self.sh(capture_script(str(self.root), self.start, str(into)))
        assert done.returncode == 0, done.stderr
        return into.read_bytes()

    def apply(self, patch: bytes) -> str:
        """The rung that applied the patch; empty when none did."""
        file = self.root.parent / "the patch"
        file.write_bytes(patch)
        done = self.sh(apply_script(str(self.root), str(file)))
        last = done.stdout.splitlines()[-1]
        assert (done.returncode == 0) == last.startswith(">>>>> Applied Patch"), done.stdout + done.stderr
        if done.returncode:
            assert last == ">>>>> Patch Apply Failed"
            return ""
        return last.partition("(")[2].rstrip(")")

    def read(self) -> dict[str, bytes]:
        """Every file outside .git."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".git/" not in path.as_posix()
        }


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes checkouts that start alike."""
    return lambda name: Checkout(tmp_path / name / "testbed")


def test_a_patch_ends_with_a_line_end_and_is_otherwise_untouched() -> None:
    assert patch_of("x\n ").data == b"x\n \n"
    assert patch_of(b"\n x \r\n").data == b"\n x \r\n"
    assert patch_of("caf\udce9 \u00e9").data == b"caf\xe9 \xc3\xa9\n"
    for blank in (None, "", " \n\t\n", b""):
        assert patch_of(blank).empty
    assert patch_of("x").digest == patch_of(b"x\n").digest != patch_of(b"x \n").digest


def test_every_kind_of_change_arrives_byte_for_byte(make: Make) -> None:
    theirs, ours = make("theirs"), make("ours")
    changes: dict[str, bytes] = {
        "text.py": FILES["text.py"].replace(b"line 3\n", b"line three \n"),
        "crlf.txt": b"one\r\n2\r\nthree",
        "latin.txt": b"caf\xe9\xff\n",
        "nul.bin": bytes(range(256)),
        "sub/new é.bin": b"\0\r\n\0",
        "empty": b"",
    }
    for name, data in changes.items():
        (theirs.root / name).parent.mkdir(exist_ok=True)
        (theirs.root / name).write_bytes(data)
    (theirs.root / "gone.txt").unlink()
    (theirs.root / "run.sh").write_text("#!/bin/sh\n")
    (theirs.root / "run.sh").chmod(0o755)
    (theirs.root / "noise.log").write_text("ignored")
    before = theirs.git("status", "--porcelain")
    patch = theirs.capture()
    assert theirs.git("status", "--porcelain") == before
    assert b"noise.log" not in patch
    assert ours.apply(patch) == "exact"
    assert ours.read() == {name: data for name, data in theirs.read().items() if name != "noise.log"}
    assert (ours.root / "run.sh").stat().st_mode & 0o111


def test_capture_takes_commits_too_and_no_setting_of_the_checkout_bends_it(make: Make) -> None:
    theirs, ours = make("theirs"), make("ours")
    for key, value in (
        ("diff.noprefix", "true"),
        ("diff.external", "false"),
        ("color.ui", "always"),
        ("core.autocrlf", "true"),
        ("diff.renames", "copies"),
    ):
        theirs.git("config", key, value)
    (theirs.root / "text.py").write_text("committed\n")
    theirs.git("commit", "-qam", "x")
    (theirs.root / "gone.txt").rename(theirs.root / "moved.txt")
    patch = theirs.capture()
    assert ours.apply(patch) == "exact"
    assert ours.read() == theirs.read()
    assert make("still").capture() == b""


def test_a_repository_inside_the_checkout_is_left_out(make: Make) -> None:
    theirs, ours = make("theirs"), make("ours")
    for name in ("empty", "a [b] *\nc"):
        (theirs.root / name).mkdir()
        theirs.git("init", "-q", name)
        (theirs.root / name / "file").write_text("x")
    (theirs.root / "line\nfeed").write_text("x")
    (theirs.root / "link").symlink_to("text.py")
    assert ours.apply(theirs.capture()) == "exact"
    assert set(ours.read()) == {*FILES, "line\nfeed", "link"}
    assert (ours.root / "link").is_symlink()


def test_the_ladder(make: Make) -> None:
    if shutil.which("patch") is None:
        pytest.skip("no patch program on this machine")
    theirs = make("theirs")
    (theirs.root / "text.py").write_bytes(FILES["text.py"].replace(b"line 10\n", b"LINE 10\n"))
    patch = theirs.capture()

    moved = make("moved")
    (moved.root / "text.py").write_bytes(FILES["text.py"].replace(b"line 8\n", b"line eight\n"))
    moved.commit()
    assert moved.apply(patch) == "three-way"

    foreign = patch.replace(patch.split(b"\n")[1], b"index " + b"1" * 40 + b".." + b"2" * 40 + b" 100644")
    fuzzy = make("fuzzy")
    (fuzzy.root / "text.py").write_bytes(FILES["text.py"].replace(b"line 8\n", b"line eight\n"))
    fuzzy.commit()
    assert fuzzy.apply(foreign) == "fuzzy"
    assert b"LINE 10\n" in (fuzzy.root / "text.py").read_bytes()
    assert not list(fuzzy.root.glob("*.rej"))

    there = make("there")
    assert there.apply(patch) == "exact"
    there.commit()
    assert there.apply(patch) in ("three-way", "already")
    assert there.apply(foreign) == "already"


def test_a_patch_that_fits_nowhere_leaves_nothing_behind(make: Make) -> None:
    checkout = make("one")
    before = checkout.read()
    for patch in (
        b"no patch at all\n",
        b"diff --git a/text.py b/text.py\n--- a/text.py\n+++ b/text.py\n@@ -1,3 +1,3 @@\n x\n-y\n+z\n w\n",
        b"diff --git a/none.py b/none.py\n--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-a\n+b\n",
        b"diff --git a/../out b/../out\nnew file mode 100644\n--- /dev/null\n+++ b/../out\n@@ -0,0 +1 @@\n+x\n",
    ):
        assert checkout.apply(patch) == ""
        assert checkout.read() == before
    assert not (checkout.root.parent / "out").exists()
