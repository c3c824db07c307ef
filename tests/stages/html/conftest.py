"""A browser, and histories to report on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.stages.report import Report, build
from harnesstrain.store import Store
from tests.project import Project
from tests.storied import Story, tell

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
HOSTILE = (
    "</title></style></script><script>window.hacked='tag'</script><img src=x onerror=\"window.hacked='image'\">"
    "<svg onload=\"window.hacked='svg'\"></svg>\" onmouseover=\"window.hacked='attribute'\" x='{{ 7 * 7 }}"
    "<a href='javascript:hacked()'>link</a><iframe src='http://127.0.0.1:9/'></iframe>&lt;b&gt;"
    "\x1b[31mred\x1b]8;;http://127.0.0.1:9/\x07link\x1b]8;;\x07\u202egnp.exe\u2066"
)
"""What a model, a task, a harness or an estimator might say."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a head.  Skips, aloud, where there is none, or none that starts."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is on PATH")
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as driver:
        try:
            started = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        except Error as error:
            pytest.skip(f"{found} does not start: {error.message.splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """A history of every kind of epoch."""
    return tell(Story(), tmp_path_factory.mktemp("history"), cache_folder)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Project:
    """The same, told by somebody who means ill."""
    return tell(Story(hostile=HOSTILE), tmp_path_factory.mktemp("hostile"), cache_folder)


def reported(project: Project) -> Report:
    """The report on a history, with the harness diff."""
    with Store.open(project.root / ".ht") as store:
        return build(store, None, HarnessRepo.open(project.root).diff)
