"""The page in a real browser: nothing runs but its own script, nothing is asked of a network, nothing is cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harnesstrain.cli.pages import write_folder
from harnesstrain.stages.report.html import to_html
from harnesstrain.store import Store
from tests.project import Project
from tests.stages.html.conftest import HOSTILE, reported

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTHS = (1280, 390)
OVERFLOW = """() => [...document.querySelectorAll('main *')].filter(one =>
    one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
    && !one.closest('.wide-scroll, figure')).map(one => one.outerHTML.slice(0, 80))"""


@contextmanager
def opened(browser: Browser, file: Path, **options: Any) -> Iterator[Page]:
    """A page, which must have said nothing and asked for nothing when it is closed."""
    context = browser.new_context(**options)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(file.as_uri())
    yield page
    context.close()
    assert said == []


@pytest.fixture(scope="module")
def page_file(history: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(to_html(reported(history)))
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_quiet_and_fits(browser: Browser, page_file: Path, width: int, scheme: Any) -> None:
    with opened(browser, page_file, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(OVERFLOW) == []
        shown = page.locator("figure svg >> visible=true")
        assert shown.count() == 2
        colours = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert _contrast(*colours) > 7


def test_without_a_script_nothing_is_missing(browser: Browser, page_file: Path) -> None:
    texts = []
    for script in (True, False):
        with opened(browser, page_file, java_script_enabled=script) as page:
            found = page.locator("main").all_text_contents()
            texts.append(re.sub(r"\s+", " ", "".join(found)))
            if not script:
                assert page.locator("input.filter >> visible=true").count() == 0
                assert page.locator("button >> visible=true").count() == 0
    assert texts[0] == texts[1]


def test_tables_sort_and_filter_and_cells_open(browser: Browser, page_file: Path) -> None:
    with opened(browser, page_file) as page:
        first = page.locator("#epoch-table tbody tr:first-child td:first-child")
        assert first.inner_text() == "1"
        page.locator("#epoch-table th button", has_text="epoch").click()
        page.locator("#epoch-table th button", has_text="epoch").click()
        assert first.inner_text() == "14"
        assert page.locator("#epoch-table th[aria-sort=descending]").count() == 1
        page.locator("input.filter").fill("countdown")
        assert page.locator("#matrix-table tbody tr >> visible=true").count() == 1
        page.locator("#matrix-table td.place.lost >> visible=true").first.click()
        told = page.locator("#opened").inner_text()
        assert "fix-countdown" in told
        assert "ht show" in told
        page.locator("a[href^='#flip-json-stock-value']").first.click()
        assert page.locator("details#flip-json-stock-value-1").get_attribute("open") is not None


@pytest.mark.parametrize("guarded", [True, False], ids=["with its policy", "without"])
def test_what_others_wrote_is_text(browser: Browser, hostile: Project, tmp_path: Path, guarded: bool) -> None:
    text = to_html(reported(hostile))
    assert "\x1b" not in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
    if not guarded:
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    file = tmp_path / "report.html"
    file.write_text(text)
    with opened(browser, file) as page:
        _pester(page)
        body = page.locator("body").inner_text()
        assert "<script>window.hacked='tag'</script>" in body
        assert "{{ 7 * 7 }}" in body
        assert page.locator("main script, main img, main iframe, main a[href^=javascript]").count() == 0


def test_the_pages_of_rollouts_are_as_safe_and_their_links_lead_somewhere(
    browser: Browser, hostile: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "full"
    report = reported(hostile)
    with Store.open(hostile.root / ".ht") as store:
        written = write_folder(folder, store, report)
    assert len(list((folder / "traces").iterdir())) == written.rollouts
    with opened(browser, folder / "index.html", viewport={"width": 390, "height": 900}) as page:
        links = page.eval_on_selector_all("#matrix-table a", "found => found.map(one => one.getAttribute('href'))")
        assert len(links) > 100
        assert all((folder / link).is_file() for link in links)
        _pester(page)
        page.goto((folder / links[0]).as_uri())
        _pester(page)
        assert "window.hacked" in page.locator("body").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.locator("a[href^='../index.html']").first.click()
        assert page.url.startswith((folder / "index.html").as_uri())


def _pester(page: Page) -> None:
    """Open everything, move over everything; nothing of what others wrote may have run."""
    page.evaluate("""() => document.querySelectorAll('details').forEach(one => { one.open = true; })""")
    page.evaluate("""() => document.querySelectorAll('*').forEach(one => {
        one.dispatchEvent(new Event('mouseover')); one.dispatchEvent(new Event('load')); })""")
    assert page.evaluate("window.hacked") is None
    assert HOSTILE[:8] in page.content() or "&lt;/title" in page.content()


def _contrast(one: str, other: str) -> float:
    """Of two CSS colours, as WCAG has it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
