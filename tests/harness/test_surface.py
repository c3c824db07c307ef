"""The guard: every way out of the surface, planted as a commit, is refused with the path named."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harnesstrain.core.errors import PolicyFailure
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness import capture
from harnesstrain.harness.repo import HarnessRepo
from tests.harness.making import git

Plant = Callable[..., str]


@pytest.fixture
def plant(repo: HarnessRepo) -> Plant:
    """Makes a child commit from raw index entries (mode, path, content), past every check that git makes by itself."""

    def make(entries: Sequence[tuple[str, str, bytes]], parents: Sequence[str] | None = None) -> str:
        index = {**os.environ, "GIT_INDEX_FILE": str(repo.root / ".git" / "planted")}

        def run(*args: str, data: bytes = b"") -> str:
            done = subprocess.run(["git", *args], cwd=repo.root, env=index, input=data, capture_output=True, check=True)
            return done.stdout.decode().strip()

        run("read-tree", repo.head())
        lines = b""
        for mode, path, content in entries:
            if mode == "0":
                oid = "0" * 40
            elif mode == "160000":
                oid = repo.head()
            else:
                oid = run("hash-object", "-w", "--stdin", data=content)
            lines += b"%s %s\t%s\0" % (mode.encode(), oid.encode(), os.fsencode(path))
        run(
            "-c",
            "core.protectHFS=false",
            "-c",
            "core.protectNTFS=false",
            "update-index",
            "-z",
            "--index-info",
            data=lines,
        )
        names = [f for parent in (parents if parents is not None else [repo.head()]) for f in ("-p", parent)]
        return run("commit-tree", run("write-tree"), *names, "-m", "planted")

    return make


def rules(repo: HarnessRepo, commit: str, manifest: Manifest | None = None) -> dict[str, str]:
    """Violated rules by path."""
    with pytest.raises(PolicyFailure) as caught:
        repo.guard(repo.head(), commit, manifest)
    violations: list[dict[str, Any]] = caught.value.extra["violations"]
    assert caught.value.extra["path"] is not None
    assert violations[0]["path"] in caught.value.message
    assert "agent/**" in (caught.value.hint or "")
    return {item["path"]: item["rule"] for item in violations}


FILE, EXECUTABLE, LINK, MODULE, GONE = "100644", "100755", "120000", "160000", "0"


@pytest.mark.parametrize(
    "entries",
    [
        [(FILE, "agent/main.py", b"x = 1\n")],
        [(FILE, "agent/deep/er/new.py", b"caf\xc3\xa9\n"), (FILE, "prompts/more.md", b"")],
        [(GONE, "agent/old.py", b"")],
        [(GONE, "agent/old.py", b""), (FILE, "agent/renamed.py", b"x")],
        [(EXECUTABLE, "agent/main.py", b"print('one')\n")],
        [(FILE, "agent/prompt naïve – ü.md", b"x")],
    ],
)
def test_what_the_surface_allows(repo: HarnessRepo, plant: Plant, entries: list[tuple[str, str, bytes]]) -> None:
    repo.guard(repo.head(), plant(entries))


@pytest.mark.parametrize(
    ("entries", "path", "rule"),
    [
        ([(FILE, "tests/test_main.py", b"")], "tests/test_main.py", "is outside the surface"),
        ([(FILE, "prompts/deep/x.md", b"")], "prompts/deep/x.md", "is outside the surface"),
        ([(GONE, "tests/test_main.py", b"")], "tests/test_main.py", "is outside the surface"),
        (
            [(EXECUTABLE, "tests/test_main.py", b"def test_main() -> None:\n    pass\n")],
            "tests/test_main.py",
            "outside",
        ),
        ([(FILE, "AGENT/main.py", b"x")], "AGENT/main.py", "is outside the surface"),
        ([(FILE, "harness.toml", b"")], "harness.toml", "is frozen"),
        ([(GONE, "harness.toml", b"")], "harness.toml", "is frozen"),
        ([(FILE, "Harness.TOML", b"")], "Harness.TOML", "is frozen"),
        ([(FILE, "ht_sdk.py", b"")], "ht_sdk.py", "is frozen"),
        ([(FILE, "ht_sdk/__init__.py", b"")], "ht_sdk/__init__.py", "is frozen"),
        ([(FILE, "agent/ht_sdk.py", b"")], "agent/ht_sdk.py", "is frozen"),
        ([(LINK, "agent/out", b"../../../etc/passwd")], "agent/out", "is a symlink"),
        ([(LINK, "agent/in", b"main.py")], "agent/in", "is a symlink"),
        ([(LINK, "agent/main.py", b"/etc/passwd")], "agent/main.py", "is a symlink"),
        ([(MODULE, "agent/sub", b"")], "agent/sub", "is a submodule"),
        ([(FILE, ".gitmodules", b"")], ".gitmodules", "belongs to git"),
        ([(FILE, "agent/.gitattributes", b"* filter=x")], "agent/.gitattributes", "belongs to git"),
        ([(FILE, "agent/.gitignore", b"*")], "agent/.gitignore", "belongs to git"),
        ([(FILE, "agent/.GitAttributes", b"*")], "agent/.GitAttributes", "belongs to git"),
        ([(FILE, "agent/git~1/config", b"*")], "agent/git~1/config", "belongs to git"),
        ([(FILE, "agent/.g\u200cit/config", b"*")], r"agent/.g\u200cit/config", "plain text in its name"),
        ([(FILE, "agent/\u202egpj.py", b"")], r"agent/\u202egpj.py", "plain text in its name"),
        ([(FILE, "agent/new\nline", b"")], r"agent/new\nline", "plain text in its name"),
        ([(FILE, "agent/\udcff.py", b"")], r"agent/\udcff.py", "plain text in its name"),
        ([(FILE, "agent/cafe\u0301.py", b"")], r"agent/cafe\u0301.py", "composed form"),
        ([(FILE, "agent/dot.", b"")], "agent/dot.", "ends in a space or a dot"),
        ([(FILE, "agent/a\\b", b"")], "agent/a\\b", "unusable name"),
        ([(FILE, "agent/Main.py", b"")], "agent/Main.py", "only in case or form"),
        ([(FILE, "agent/Deep/a.py", b""), (FILE, "agent/deep/b.py", b"")], "agent/Deep/a.py", "only in case or form"),
        ([(FILE, "agent/\uff4dain.py", b"")], "agent/\uff4dain.py", "only in case or form"),
        ([(FILE, "agent/conftest.py", b"")], "agent/conftest.py", "picked up by tools"),
        ([(FILE, "agent/sitecustomize.py", b"")], "agent/sitecustomize.py", "picked up by tools"),
        ([(FILE, "agent/pytest.ini", b"")], "agent/pytest.ini", "picked up by tools"),
        ([(FILE, "agent/x.pth", b"import os")], "agent/x.pth", "loaded unseen"),
        ([(FILE, "agent/main.cpython-311.pyc", b"x")], "agent/main.cpython-311.pyc", "loaded unseen"),
        ([(FILE, "agent/main.so", b"x")], "agent/main.so", "loaded unseen"),
        ([(FILE, "agent/__pycache__/main.txt", b"x")], "agent/__pycache__/main.txt", "tool's cache"),
        ([(FILE, "agent/data.py", b"a\0b")], "agent/data.py", "is binary"),
        ([(FILE, "agent/data.py", b"caf\xe9")], "agent/data.py", "not UTF-8"),
        ([(FILE, "agent/big.py", b"x" * (capture.MAX_FILE + 1))], "agent/big.py", "bytes, more than"),
        ([(FILE, f"agent/{'x' * 300}/{'y' * 300}.py", b"")], f"agent/{'x' * 300}/{'y' * 300}.py", "longer than"),
    ],
)
def test_what_it_refuses(
    repo: HarnessRepo, plant: Plant, entries: list[tuple[str, str, bytes]], path: str, rule: str
) -> None:
    assert rule in rules(repo, plant(entries))[path]


def test_a_rename_out_of_the_surface_and_into_it(repo: HarnessRepo, plant: Plant) -> None:
    old = repo.file("HEAD", "agent/old.py") or b""
    found = rules(repo, plant([(GONE, "agent/old.py", b""), (FILE, "tests/old.py", old)]))
    assert found == {"tests/old.py": "is outside the surface"}
    test = repo.file("HEAD", "tests/test_main.py") or b""
    found = rules(repo, plant([(GONE, "tests/test_main.py", b""), (FILE, "agent/test_main.py", test)]))
    assert found == {"tests/test_main.py": "is outside the surface"}


def test_every_violation_is_listed(repo: HarnessRepo, plant: Plant) -> None:
    found = rules(repo, plant([(FILE, "a", b""), (FILE, "b", b""), (FILE, "agent/ok.py", b"")]))
    assert found.keys() == {"a", "b"}


def test_the_sum_of_bytes_and_files_is_bounded(repo: HarnessRepo, plant: Plant) -> None:
    many = [(FILE, f"agent/f{number}.py", b"x" * (1 << 20)) for number in range(5)]
    assert "changed bytes" in next(iter(rules(repo, plant(many)).values()))
    more = [(FILE, f"agent/f{number}.py", b"") for number in range(201)]
    assert "201 changed files" in next(iter(rules(repo, plant(more)).values()))


def test_a_surface_opens_a_special_name_by_naming_it(repo: HarnessRepo, plant: Plant) -> None:
    commit = plant([(FILE, "agent/conftest.py", b"")])
    manifest = repo.manifest(repo.head())
    wider = manifest.model_copy(update={"surface": ("agent/**", "agent/conftest.py")})
    repo.guard(repo.head(), commit, wider)


def test_the_parent_is_the_base_alone(repo: HarnessRepo, plant: Plant) -> None:
    base = repo.head()
    child = plant([(FILE, "agent/main.py", b"1")])
    other = plant([(FILE, "agent/main.py", b"2")])
    for parents in ([], [child], [base, other], [other, base]):
        commit = plant([(FILE, "agent/main.py", b"3")], parents)
        with pytest.raises(PolicyFailure, match="the parent of"):
            repo.guard(base, commit)
    with pytest.raises(PolicyFailure, match="the parent of"):
        repo.guard(base, base)


def test_a_replaced_object_does_not_fool_the_guard(repo: HarnessRepo, plant: Plant) -> None:
    good = plant([(FILE, "agent/main.py", b"1")])
    bad = plant([(FILE, "tests/test_main.py", b"1")])
    git(repo.root, "replace", bad, good)
    assert rules(repo, bad).keys() == {"tests/test_main.py"}


def test_capture_then_guard(repo: HarnessRepo) -> None:
    base = repo.head()
    with repo.worktree(base) as place:
        (place / "agent" / "main.py").write_text("x = 2\n")
        inside = repo.capture(place, base, "Inside")
        (place / "conftest.py").write_text("raise SystemExit(0)\n")
        outside = repo.capture(place, base, "Outside")
    assert inside is not None
    assert outside is not None
    repo.guard(base, inside)
    assert "picked up by tools" in rules(repo, outside)["conftest.py"]
