"""The shipped patch queue: every patch applies, in whatever company; each stays inside the surface."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

from harnesstrain.core.resources import shipped
from harnesstrain.harness import manifest as manifests
from harnesstrain.harness.globs import matches
from harnesstrain.harness.patching import apply_patch
from tests.bootstrap.conftest import PATCHES, Make, check, patch

BROKEN = "pattern-parser"
"""The one that its own check refuses."""

NAMES = [path.stem.split("-", 1)[1] for path in PATCHES]


def touched(path: Path) -> set[str]:
    """The files that a patch names."""
    return set(re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", path.read_text(), re.MULTILINE))


def test_there_are_enough_of_them_in_order() -> None:
    assert len(PATCHES) >= 8
    assert [path.stem.split("-", 1)[0] for path in PATCHES] == [f"{n:02d}" for n in range(1, len(PATCHES) + 1)]
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("path", PATCHES, ids=NAMES)
def test_each_says_what_it_is_for(path: Path) -> None:
    head = path.read_text().partition("\n---\n")[0]
    subject = re.match(r"Subject: (.+)\n", head)
    assert subject
    assert len(subject.group(1)) <= 72
    assert len(head.splitlines()) >= 3, "a reason follows the subject"


@pytest.mark.parametrize("path", PATCHES, ids=NAMES)
def test_each_stays_inside_the_surface(path: Path) -> None:
    surface = manifests.load(shipped("bootstrap") / "harness").surface
    assert touched(path)
    for name in touched(path):
        assert matches(name, surface), name


@pytest.mark.parametrize("path", PATCHES, ids=NAMES)
def test_predicted_tasks_exist(path: Path) -> None:
    found = re.search(r"^Predicted: (.+)$", path.read_text().partition("\n---\n")[0], re.MULTILINE)
    for name in found.group(1).split(", ") if found else ():
        assert (shipped("tasksets") / "quick" / name / "task.toml").is_file(), name


@pytest.mark.parametrize("name", NAMES)
def test_the_check_tells_the_broken_one_from_the_others(name: str, make: Make) -> None:
    done = check(make(name))
    assert (done.returncode == 0) == (name != BROKEN), done.stderr


def test_each_applies_whichever_others_were_promoted(tmp_path: Path, baseline: Path) -> None:
    """Patches of different files cannot disturb each other; of those that share one, every subset is tried in order."""
    groups: dict[str, list[Path]] = {}
    for path in PATCHES:
        if path != patch(BROKEN):
            for name in touched(path):
                groups.setdefault(name, []).append(path)
    tried = 0
    for name, paths in groups.items():
        original = (baseline / name).read_bytes() if (baseline / name).exists() else None
        for size in range(2, len(paths) + 1):
            for subset in combinations(paths, size):
                place = tmp_path / str(tried)
                place.mkdir()
                if original is not None:
                    (place / name).parent.mkdir(parents=True, exist_ok=True)
                    (place / name).write_bytes(original)
                for path in subset:
                    apply_patch(place, only(path, name, tmp_path))
                tried += 1
    assert tried >= 8


def only(path: Path, name: str, scratch: Path) -> Path:
    """The part of a patch that concerns one file."""
    parts = re.split(r"^(?=diff --git )", path.read_text(), flags=re.MULTILINE)
    wanted = [part for part in parts[1:] if f" b/{name}\n" in part]
    target = scratch / f"{path.stem}.only.patch"
    target.write_text("".join(wanted))
    return target


def test_all_of_them_together_still_pass_the_check(make: Make) -> None:
    done = check(make(*(name for name in NAMES if name not in (BROKEN, "first-line-only"))))
    assert done.returncode == 0, done.stderr
