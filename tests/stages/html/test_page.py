"""The page as text: the same bytes for the same records, and everything that a report has."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from harnesstrain.cli.pages import write_folder
from harnesstrain.core.records.verdict import Epoch
from harnesstrain.harness.repo import HarnessRepo
from harnesstrain.stages.report import ReportSpec, build
from harnesstrain.stages.report.html import to_html
from harnesstrain.store import Store
from tests.project import Project
from tests.stages.html.conftest import reported
from tests.storied import Story, tell

VOID = {"meta", "br", "img", "input", "link", "hr", "path", "line", "rect", "circle"}


class Outline(HTMLParser):
    """Headings and their text, and tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag not in VOID:
            self.open.append(tag)
        if tag == "h2":
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings[-1] += data


def test_the_same_records_are_the_same_bytes(history: Project) -> None:
    assert to_html(reported(history)) == to_html(reported(history))


def test_everything_is_on_the_page_in_reading_order_and_every_tag_is_closed(history: Project) -> None:
    outline = Outline()
    outline.feed(to_html(reported(history)))
    assert outline.wrong == []
    assert outline.headings == [
        "May I believe it",
        "Epochs",
        "Task by epoch",
        "Where each change acted",
        "Verdict and flips",
        "Levers",
        "How outcomes moved",
        "Not compared",
        "Other splits",
        "Caches and noise",
        "Harness diff",
        "Lineage",
        "Memo",
        "What was measured",
    ]


def test_nothing_on_the_page_comes_from_elsewhere(history: Project) -> None:
    page = to_html(reported(history))
    assert not re.search(r"""(?:src|href|action)=["']?(?!#)[^"'#]""", re.sub(r"xmlns(:xlink)?=\S+", "", page))
    assert "@import" not in page
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", page)


def test_a_baseline_alone_has_a_page(tmp_path: Path, cache_folder: Path) -> None:
    project = tell(Story(epochs=0, tasks=3, holdout=0, steps=2), tmp_path, cache_folder)
    with Store.open(project.root / ".ht") as store:
        page = to_html(build(store))
    outline = Outline()
    outline.feed(page)
    assert outline.wrong == []
    assert "Verdict and flips" not in outline.headings
    assert "Only " in page


def test_any_two_runs_have_a_page_judged_or_not(history: Project) -> None:
    with Store.open(history.root / ".ht") as store:
        base, *_, last = (run for run in store.runs() if run.split == "train")
        spec = ReportSpec(base_run=base.id, cand_run=last.id)
        report = build(store, spec, HarnessRepo.open(history.root).diff)
    assert report.verdict is not None
    assert report.verdict.decision is None
    assert "Not judged" in to_html(report)


def test_ids_in_charts_do_not_clash(history: Project) -> None:
    page = to_html(reported(history))
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    wanted = set(re.findall(r'(?:url\(#|href="#)([^")]*)', page))
    assert wanted <= set(ids)


def test_a_folder_says_how_many_rollouts_have_no_trace_to_show(tmp_path: Path, cache_folder: Path) -> None:
    project = tell(Story(epochs=1, tasks=2, holdout=0, steps=2), tmp_path, cache_folder)
    with Store.open(project.root / ".ht") as store:
        report = build(store)
        whole = write_folder(tmp_path / "whole", store, report)
        for file in (project.root / ".ht" / "traces").rglob("*.parquet"):
            file.unlink()
        lost = write_folder(tmp_path / "lost", store, report)
    assert (whole.rollouts, whole.lost) == (4, 0)
    assert (lost.rollouts, lost.lost) == (4, 4)


def test_the_first_epoch_has_a_page_while_it_is_under_way(tmp_path: Path, cache_folder: Path) -> None:
    project = tell(Story(epochs=0, tasks=3, holdout=0, steps=2), tmp_path, cache_folder)
    with Store.open(project.root / ".ht") as store:
        (run,) = (run for run in store.runs() if run.split == "train")
        store.put_epoch(Epoch(number=1, base=run.commit, base_run=run.id, state="started"))
        page = to_html(build(store))
    assert "started" in page
