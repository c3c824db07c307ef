"""Plugin points: by name, by module:Class, and what is said when there is none."""

from __future__ import annotations

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
