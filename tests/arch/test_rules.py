"""The architecture's own rules hold."""

from __future__ import annotations

from pathlib import Path

from tests.arch import rules


def test_no_breach() -> None:
    assert rules.breaches() == []


def test_the_rules_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "utils.py"
    bad.write_text("print('hello')\n")
    problems = rules._content(bad)
    assert len(problems) == 3
    assert any("docstring" in problem for problem in problems)
    assert any("prints" in problem for problem in problems)
