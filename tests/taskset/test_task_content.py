"""The digest of a task: what changes it, what does not, and what cannot be covered."""

from __future__ import annotations

import compileall
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset import load_task
from harnesstrain.taskset.content import digest_directory

MakeTask = Callable[..., Path]

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
trees = st.dictionaries(names, st.tuples(st.binary(max_size=40), st.booleans()), max_size=6)


def lay(root: Path, tree: dict[str, tuple[bytes, bool]]) -> Path:
    """Write the files of `tree` (name → bytes, executable) in its order."""
    root.mkdir()
    for name, (data, executable) in tree.items():
        (root / name).write_bytes(data)
        (root / name).chmod(0o755 if executable else 0o644)
    return root


@given(trees, st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_order_place_times_or_umask(
    tree: dict[str, tuple[bytes, bool]], random: object
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = lay(Path(folder) / "one", tree)
        shuffled = list(tree.items())
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        other = lay(Path(folder) / "two", dict(shuffled))
        for path in other.iterdir():
            os.utime(path, (1, 1))
            path.chmod(0o775 if path.stat().st_mode & 0o100 else 0o664)
        assert digest_directory(one) == digest_directory(other)


@given(trees, trees)
def test_different_content_has_a_different_digest(
    left: dict[str, tuple[bytes, bool]], right: dict[str, tuple[bytes, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, other = lay(Path(folder) / "one", left), lay(Path(folder) / "two", right)
        assert (digest_directory(one) == digest_directory(other)) == (left == right)


def _env(text: str) -> Callable[[Path], None]:
    return lambda task: (task / "task.toml").write_text((task / "task.toml").read_text() + text) and None


CHANGES: dict[str, Callable[[Path], object]] = {
    "instruction": lambda task: (task / "instruction.md").write_text("Say hello. \n"),
    "unicode form": lambda task: (task / "instruction.md").write_text("Say hello.\n\u0301"),
    "dockerfile": lambda task: (task / "environment/Dockerfile").write_text("FROM python:3.11-slim\n"),
    "new file": lambda task: (task / "environment/new").write_text(""),
    "hidden file": lambda task: (task / "environment/.hidden").write_text(""),
    "nested git": lambda task: ((task / "environment/.git").mkdir(), (task / "environment/.git/HEAD").write_text("x")),
    "cache": lambda task: ((task / "tests/__pycache__").mkdir(), (task / "tests/__pycache__/a.pyc").write_text("x")),
    "empty directory": lambda task: (task / "environment/empty").mkdir(),
    "executable bit": lambda task: (task / "tests/test.sh").chmod(0o755),
    "set-id bit": lambda task: (task / "tests/test.sh").chmod(0o4644),
    "link": lambda task: (task / "environment/link").symlink_to("Dockerfile"),
    "test": lambda task: (task / "tests/test.sh").write_text("#!/bin/sh\n"),
    "test data": lambda task: (task / "tests/data").write_text("1"),
    "variable": _env("[environment.env]\nA = '1'\n"),
    "memory": _env("memory_mb = 100\n"),
    "user": _env("[metadata.harnesstrain]\npass_reward = 0.5\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_an_agent_or_a_grade_depends_on_changes_the_digest(make_task: MakeTask, change: str) -> None:
    directory = make_task(files={"tests/test.sh": "#!/bin/sh\necho 1\n"})
    (directory / "tests/test.sh").chmod(0o644)
    before = load_task(directory)
    assert load_task(directory) == before
    CHANGES[change](directory)
    after = load_task(directory)
    assert after.digest != before.digest
    parts = {"environment": after.environment != before.environment, "verifier": after.verifier != before.verifier}
    where = {"test": "verifier", "cache": "verifier", "executable bit": "verifier", "set-id bit": "verifier"}
    if change not in ("instruction", "unicode form", "user"):
        part = where.get(change, "verifier" if change == "test data" else "environment")
        assert parts == {"environment": part == "environment", "verifier": part == "verifier"}


def test_what_nobody_who_acts_or_grades_sees_does_not_change_the_digest(make_task: MakeTask) -> None:
    directory = make_task()
    before = load_task(directory)
    (directory / "solution/solve.sh").write_text("#!/bin/sh\necho other\n")
    (directory / "README.md").write_text("About.\n")
    (directory / "task.toml").write_text(
        "# A comment\n" + (directory / "task.toml").read_text().replace("easy", "hard")
    )
    moved = shutil.copytree(directory, directory.parent.parent / "elsewhere" / "hello")
    assert load_task(moved).digest == before.digest


def test_byte_code_that_python_left_does_not_change_the_digest(make_task: MakeTask) -> None:
    directory = make_task(files={"environment/app/tool.py": "x = 1\n", "tests/check.py": "y = 2\n"})
    before = load_task(directory).digest
    assert compileall.compile_dir(directory, quiet=1)
    assert (directory / "environment/app/__pycache__").is_dir()
    assert load_task(directory).digest == before


def test_texts_that_differ_in_unicode_form_only_differ(make_task: MakeTask) -> None:
    one = make_task("a", files={"instruction.md": "Caf\u00e9\n", "environment/caf\u00e9": "x"})
    two = make_task("b", files={"instruction.md": "Cafe\u0301\n", "environment/cafe\u0301": "x"})
    assert load_task(one).digest != load_task(two).digest
    assert load_task(one).environment.digest != load_task(two).environment.digest


def test_names_that_are_not_utf8_are_covered(tmp_path: Path) -> None:
    empty = digest_directory(tmp_path)
    (tmp_path / os.fsdecode(b"\xff\xfe")).touch()
    assert digest_directory(tmp_path) != empty


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("../../../outside", "points out of"),
        ("../tests/test.sh", "points out of"),
        ("/etc/passwd", "points out of"),
        ("loop", "circle"),
        (".", "that it is in"),
        ("sub/..", "that it is in"),
    ],
)
def test_links_that_cannot_be_covered_are_refused(make_task: MakeTask, target: str, message: str) -> None:
    directory = make_task(files={"environment/sub/file": "x"})
    (directory / "environment/loop").symlink_to(target)
    with pytest.raises(ConfigError, match=message):
        load_task(directory)


@pytest.mark.parametrize("target", ["sub/file", "sub", "not-there-yet", "chain"])
def test_links_inside_are_part_of_the_content(make_task: MakeTask, target: str) -> None:
    directory = make_task(files={"environment/sub/file": "x"})
    (directory / "environment/chain").symlink_to("sub/file")
    before = load_task(directory).digest
    (directory / "environment/link").symlink_to(target)
    assert load_task(directory).digest != before


def test_a_folder_that_is_a_link_is_refused(make_task: MakeTask) -> None:
    directory = make_task()
    (directory / "environment").rename(directory / "other")
    (directory / "environment").symlink_to("other")
    with pytest.raises(ConfigError, match="is a link"):
        load_task(directory)


def test_pipes_and_sockets_are_refused(make_task: MakeTask) -> None:
    directory = make_task()
    os.mkfifo(directory / "tests/pipe")
    with pytest.raises(ConfigError, match="neither file, directory nor link"):
        load_task(directory)
