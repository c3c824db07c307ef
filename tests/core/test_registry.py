"""Plugin points: by name, by module:Class, and what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core import registry
from harnesstrain.core.errors import ConfigError, NotFound
from harnesstrain.judge import StrictPareto


def test_a_class_of_ones_own_needs_no_packaging() -> None:
    assert registry.load("criteria", "harnesstrain.judge.pareto:StrictPareto") is StrictPareto


@pytest.mark.parametrize("name", ["harnesstrain.nothing:X", "harnesstrain.judge:Nothing"])
def test_a_class_that_is_not_there_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot load"):
        registry.load("criteria", name)


def test_a_mistyped_name_is_corrected() -> None:
    with pytest.raises(NotFound) as caught:
        registry.load("criteria", "strict-paretto")
    assert caught.value.hint == "did you mean 'strict-pareto'?"
    with pytest.raises(NotFound) as caught:
        registry.load("criteria", "zzz")
    assert "total-solves" in (caught.value.hint or "")


def test_a_plugin_that_comes_with_a_new_place_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound):
        registry.load("criteria", "late")
    folder = tmp_path / "late-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[harnesstrain.criteria]\nlate = harnesstrain.judge.pareto:StrictPareto\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert registry.load("criteria", "late") is StrictPareto
    assert "late" in registry.names("criteria")
