"""docs/reference is what the program says; links in the docs lead somewhere; commands named in the docs exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harnesstrain.cli.app import COMMANDS
from tests.docs.generate import PAGES, REFERENCE, ROOT

PROSE = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bootstrap").rglob("*.md")])


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_reference_is_current(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "`make docs` writes it"


@pytest.mark.parametrize("page", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_named_in_prose_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"(?:^|[`$(| ])ht ([a-z][a-z-]+)", text, re.MULTILINE):
        assert name in COMMANDS or name == "foo", f"{page.name} names `ht {name}`"
