"""Real git repositories and real harness processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from harnesstrain.core import confinement
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.harness.template import sdk_source
from tests.harness.making import MANIFEST, commit_all, git


@pytest.fixture(scope="session")
def jailed() -> None:
    """Skips, aloud, where no jail can be had."""
    why = confinement.unavailable()
    if why is not None:
        pytest.skip(f"no jail: {why}")


@pytest.fixture(params=["jail", "process"])
def isolated(request: pytest.FixtureRequest) -> bool:
    """Both ways of running a harness."""
    if request.param == "jail":
        request.getfixturevalue("jailed")
    return bool(request.param == "jail")


@pytest.fixture
def harness(tmp_path: Path) -> Callable[..., tuple[Path, Manifest]]:
    """Makes a harness directory whose program is the given python text."""

    def make(program: str, **changes: object) -> tuple[Path, Manifest]:
        place = tmp_path / "harness"
        place.mkdir()
        (place / "main.py").write_text(program)
        (place / "ht_sdk.py").write_bytes(sdk_source().read_bytes())
        fields: Mapping[str, object] = {"name": "t", "command": ("python", "main.py"), "surface": ("agent/**",)}
        return place, Manifest.model_validate({**fields, **changes})

    return make


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[HarnessRepo]:
    """A harness repo with one commit on `main`: agent/, prompts/, tests/, a symlink, an executable, odd bytes."""
    root = tmp_path / "repo"
    for name in ("agent", "prompts", "tests"):
        (root / name).mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "User")
    git(root, "config", "user.email", "user@example.org")
    (root / "harness.toml").write_text(MANIFEST)
    (root / "ht_sdk.py").write_bytes(sdk_source().read_bytes())
    (root / "agent" / "main.py").write_text("print('one')\n")
    (root / "agent" / "old.py").write_text("".join(f"line {n}\n" for n in range(50)))
    (root / "agent" / "tool.sh").write_text("#!/bin/sh\n")
    (root / "agent" / "tool.sh").chmod(0o755)
    (root / "prompts" / "system.md").write_bytes(b"caf\xc3\xa9\r\nno newline at the end")
    (root / "tests" / "test_main.py").write_text("def test_main() -> None:\n    pass\n")
    (root / "link").symlink_to("agent/main.py")
    (root / ".gitignore").write_text(".ht/\n*.log\n")
    commit_all(root, "Start")
    yield HarnessRepo.open(root)


@pytest.fixture
def no_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without any git configuration."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert subprocess.run(["git", "config", "user.name"], cwd=tmp_path, check=False).returncode
