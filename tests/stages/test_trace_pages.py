"""A rollout as a page: all it exchanged, each message once, long texts cut aloud, foreign text inert."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harnesstrain.core.records.rollout import StepKind
from harnesstrain.stages.report import ReportSpec, build
from harnesstrain.stages.report.plain import plain
from harnesstrain.stages.report.traces import LONGEST, STEPS, TracePage, page_names, trace_pages
from harnesstrain.store import Store
from tests.stages.test_flip_diffs import SYSTEM, TASK, Side, Two, _texts
from tests.stages.test_report import EVIL, FAILED, SOLVED
from tests.storied import Story, tell


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, cache_folder: Path) -> Iterator[Store]:
    """A history of two epochs in which every text is hostile."""
    story = Story(epochs=2, tasks=6, holdout=2, steps=4, hostile=EVIL)
    project = tell(story, tmp_path_factory.mktemp("told"), cache_folder)
    with Store.open(project.root / ".ht") as store:
        yield store


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with Store.open(tmp_path / ".ht", create=True) as store:
        yield Two(store)


def _pages(two: Two, base: Side | None, cand: Side | None) -> list[TracePage]:
    runs = two.run("base", {"t": (FAILED, base)}), two.run("cand", {"t": (SOLVED, cand)})
    report = build(two.store, ReportSpec(base_run=runs[0].id, cand_run=runs[1].id))
    return list(trace_pages(two.store, report))


def test_every_rollout_that_the_report_links_to_has_a_page(told: Store) -> None:
    report = build(told)
    linked = {place.rollout for row in report.matrix.rows for place in row.places if place.rollout}
    compared = {one.id for run in (report.header.base_run, report.header.cand_run) for one in told.rollouts(run or "")}
    names = page_names(told, report)
    assert len(linked - compared) > 0
    assert set(names) == linked | compared
    assert len(names) == len(set(names))
    assert set(names[: len(compared)]) == compared
    assert tuple(page.rollout for page in trace_pages(told, report)) == names


def test_the_messages_of_a_request_are_those_kept_and_those_that_are_new(told: Store) -> None:
    report = build(told)
    for page in trace_pages(told, report):
        steps = {step.index: step for step in told.trace(page.rollout).steps}
        assert [step.index for step in page.steps] == sorted(steps)
        replied = 0
        for step in page.steps:
            if steps[step.index].kind is StepKind.LLM:
                own = 1 if replied else 0  # the reply before, which stands above
                assert step.kept + own + len(step.new) == len(steps[step.index].messages)
                replied += 1


def test_the_step_where_two_sides_part_is_marked_on_both_pages(told: Store) -> None:
    report = build(told)
    pages = {page.rollout: page for page in trace_pages(told, report)}
    assert report.flips.shown
    for flip in report.flips.shown:
        base, cand = pages[flip.base.rollout], pages[flip.cand.rollout]
        assert (base.parts, cand.parts) == (flip.base.step, flip.cand.step)
        assert (base.other, base.other_name) == (cand.rollout, "candidate")
        assert (cand.other, cand.other_name) == (base.rollout, "baseline")


def test_long_texts_keep_start_and_end_and_say_what_is_missing(two: Two) -> None:
    output = "start " + "x" * (3 * LONGEST) + " end"
    base = _pages(two, Side().reply("ls").run("ls", output), None)[0]
    shown = base.steps[1].output
    assert shown.startswith("exit 0\nstart ") and shown.endswith(" end")
    left = len("exit 0\n" + output) - LONGEST
    assert f"[… {left} characters left out here; `{base.command}` has all of it …]" in shown
    assert len(shown) < LONGEST + 200


def test_steps_beyond_the_bound_are_counted(two: Two) -> None:
    side = Side().reply("ls")
    for _ in range(STEPS + 4):
        side.note()
    page = _pages(two, side, None)[0]
    assert (len(page.steps), page.left) == (STEPS, 5)


def test_messages_that_a_harness_takes_out_are_counted(two: Two) -> None:
    side = Side().reply("ls").run("ls")
    side.asked = side.asked[:1]
    side.say({"role": "user", "content": "So far: ls."}).reply("cat a")
    step = _pages(two, side, None)[0].steps[2]
    assert (step.kept, step.gone, [(one.role, one.text) for one in step.new]) == (1, 1, [("user", "So far: ls.")])


def test_what_is_no_text_is_shown_as_json(two: Two) -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    call = {"role": "assistant", "content": None, "tool_calls": [{"name": "run"}]}
    side = Side(SYSTEM, TASK, {"role": "user", "content": parts}, call).reply("ls")
    new = _pages(two, side, None)[0].steps[0].new
    assert new[2].text == 'see\n{"image_url": {"url": "data:"}, "type": "image_url"}'
    assert new[3].text == 'tool_calls: [{"name": "run"}]'


def test_a_page_without_a_trace_says_why(two: Two) -> None:
    base, cand = _pages(two, Side().reply("ls"), None)
    assert (base.problem, cand.problem, cand.steps) == ("", "No trace was recorded.", ())


def test_hostile_text_is_plain_in_the_data_and_inert_in_the_page(told: Store) -> None:
    pytest.importorskip("jinja2", reason="the extra `report` is not installed")
    from harnesstrain.stages.report.html import trace_files

    report = build(told)
    for page in trace_pages(told, report):
        for text in _texts(page.model_dump(mode="json")):
            assert plain(text) == text
    files = list(trace_files(told, report, back="../report.html"))
    assert [one.name for one in files] == [f"{name}.html" for name in page_names(told, report)]
    for one in files:
        reader = _Reader()
        reader.feed(one.html)
        assert "&lt;script&gt;" in one.html
        assert not reader.tags & {"script", "img", "iframe", "link", "object"}
        assert all(not name.startswith("on") for name in reader.attributes)
        assert {link.partition("#")[0] for link in reader.links} <= {"", "../report.html", *(f.name for f in files)}
    assert [one.html for one in trace_files(told, report, back="../report.html")] == [one.html for one in files]


class _Reader(HTMLParser):
    """What elements, attributes and links a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}
