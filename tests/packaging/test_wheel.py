"""The wheel carries migrations, tasksets and bootstrap, and works without the checkout."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without network."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return next(out.glob("harnesstrain-*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the wheel installed; its dependencies are borrowed from this environment."""
    home = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    interpreter = home / "bin" / "python"
    install = [str(interpreter), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    packages = next(home.glob("lib/python*/site-packages"))
    borrowed = [path for path in site.getsitepackages() if Path(path).is_dir()]
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return interpreter


def ht(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `ht` from the clean environment."""
    program = python.parent / "ht"
    return subprocess.run([str(program), *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def test_shipped_data_is_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for needed in (
        "harnesstrain/_data/migrations/env.py",
        "harnesstrain/_data/tasksets/quick.toml",
        "harnesstrain/_data/tasksets/quick/write-greeting/tests/test.sh",
        "harnesstrain/_data/bootstrap/harness/harness.toml",
        "harnesstrain/_data/bootstrap/project/ht.toml",
    ):
        assert needed in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests/")]


def test_init_and_commands_work_from_the_wheel(python: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [str(python), "-c", "import harnesstrain; print(harnesstrain.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert str(python.parent.parent) in where
    made = ht(python, "init", "h", "--demo", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == str(tmp_path / "h")
    listed = ht(python, "tasks", "list", "quick", cwd=tmp_path / "h")
    assert listed.returncode == 0, listed.stderr
    assert len(listed.stdout.splitlines()) == 32
    status = ht(python, "status", cwd=tmp_path / "h")
    assert status.returncode == 0, status.stderr
    upgraded = ht(python, "db", "upgrade", cwd=tmp_path / "h")
    assert upgraded.returncode == 0, upgraded.stderr
    assert "nothing to do" in upgraded.stderr
