"""harness.toml is strict, and its errors say where."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.harness import globs, manifest

GOOD = """
[harness]
name = "shell-agent"
command = ["python", "-m", "agent"]
surface = ["agent/**", "prompts/*.md"]
check = ["python", "-m", "pytest", "-q"]
[modules]
prompts = ["prompts/**"]
"""


def test_a_full_manifest() -> None:
    read = manifest.parse(GOOD.encode())
    assert read.name == "shell-agent"
    assert read.command == ("python", "-m", "agent")
    assert read.surface == ("agent/**", "prompts/*.md")
    assert read.visible == ("**",)
    assert read.check == ("python", "-m", "pytest", "-q")
    assert read.check_timeout == 300.0
    assert read.environment is None
    assert read.modules == {"prompts": ("prompts/**",)}


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("surface =", "surfaces =", "unknown key 'surfaces'", "did you mean 'surface'?"),
        ("[modules]", "[module]", "unknown table 'module'", "did you mean 'modules'?"),
        ("[harness]", "[harnes]", "unknown table 'harnes'", "did you mean 'harness'?"),
        ('name = "shell-agent"', "", "name is missing", "name"),
        ('name = "shell-agent"', 'name = "a\\u001bb"', r"can be printed, not 'a\x1bb'", "name"),
        ('name = "shell-agent"', "name = 3", "name must be", "name"),
        ('["python", "-m", "agent"]', '"python -m agent"', "command must be a list", "command"),
        ('["python", "-m", "agent"]', "[]", "command is empty", "command"),
        ('["agent/**", "prompts/*.md"]', "[]", "surface is empty", "surface"),
        ('["agent/**", "prompts/*.md"]', '["**"]', "covers a frozen file", "frozen"),
        ('["agent/**", "prompts/*.md"]', '["*.py"]', "covers a frozen file", "frozen"),
        ('["agent/**", "prompts/*.md"]', '["harness.toml"]', "covers a frozen file", "frozen"),
        ('["agent/**", "prompts/*.md"]', '["../agent/**"]', "bad glob '../agent/**'", "globs"),
        ('["agent/**", "prompts/*.md"]', '["/agent/**"]', "bad glob '/agent/**'", "globs"),
        ('["agent/**", "prompts/*.md"]', '["agent/**.py"]', "bad glob", "globs"),
        ('["agent/**", "prompts/*.md"]', '["!agent/x"]', "bad glob", "globs"),
        ('["agent/**", "prompts/*.md"]', '["agent\\\\x"]', "bad glob", "globs"),
        ('["agent/**", "prompts/*.md"]', '[""]', "surface is empty", "surface"),
        ('["prompts/**"]', '["prompts//x"]', "modules.prompts has a bad glob", "globs"),
        ("[modules]", "check_timeout = 0\n[modules]", "check_timeout must be seconds", "check_timeout"),
        ("[modules]", "check_timeout = nan\n[modules]", "check_timeout must be seconds", "check_timeout"),
        ("[modules]", 'kind = "external"\n[modules]', "reserved and not available", "kind"),
        ("[modules]", 'kind = "other"\n[modules]', "unknown kind 'other'", "kind"),
        ("[harness]", "[harness", "not TOML", "guide"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, message: str, hint: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        manifest.parse(GOOD.replace(old, new).encode())
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.exit_code == 2


def test_files_that_are_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no harness.toml"):
        manifest.load(tmp_path)
    (tmp_path / "harness.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        manifest.load(tmp_path)
    (tmp_path / "harness.toml").write_bytes(b"#" * (manifest.MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        manifest.load(tmp_path)


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("agent/**", "agent/a.py", True),
        ("agent/**", "agent/deep/er/a.py", True),
        ("agent/**", "agent", False),
        ("agent/**", "agent2/a.py", False),
        ("agent/**", "Agent/a.py", False),
        ("prompts/*.md", "prompts/a.md", True),
        ("prompts/*.md", "prompts/deep/a.md", False),
        ("**/tests/*.py", "tests/a.py", True),
        ("**/tests/*.py", "x/y/tests/a.py", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/?.py", "a/b.py", True),
        ("a/?.py", "a/bb.py", False),
        ("a/[ab].py", "a/a.py", True),
        ("a/[!ab].py", "a/a.py", False),
        ("**", "anything/at.all", True),
        ("a.c", "abc", False),
    ],
)
def test_globs(glob: str, path: str, expected: bool) -> None:
    assert globs.problem(glob) is None
    assert globs.matches(path, [glob]) is expected
