"""Where flipped cells part: every kind of divergence, what is shared, what followed, and what a lost trace leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.digests import digest
from harnesstrain.core.records.rollout import Step, StepKind, Trace
from harnesstrain.core.records.run import Run
from harnesstrain.judge import compare
from harnesstrain.stages.report import ReportSpec, build, to_json, to_markdown, to_text
from harnesstrain.stages.report.flip_parts import told
from harnesstrain.stages.report.flipdiffs import FOLLOWED, PREFIX, flip_diffs
from harnesstrain.stages.report.flips import FlipDiff, FlipDiffs
from harnesstrain.stages.report.plain import plain
from harnesstrain.store import Store
from tests.stages.test_report import EVIL, FAILED, SOLVED, History
from tests.storied import Story, tell

SYSTEM = {"role": "system", "content": "Answer with one command."}
TASK = {"role": "user", "content": "Leave the answer in /app."}


class Side:
    """One side's trace, step by step."""

    def __init__(self, *messages: Mapping[str, Any], log: str = "") -> None:
        self.steps: list[Step] = []
        self.messages: dict[str, dict[str, Any] | list[Any]] = {}
        self.log = log
        self.asked: list[str] = []
        for message in messages or (SYSTEM, TASK):
            self.say(message)

    def say(self, message: Mapping[str, Any]) -> Side:
        name = digest(message)
        self.messages[name] = dict(message)
        self.asked.append(name)
        return self

    def reply(self, content: str, *, tools: Sequence[Any] = (), **changes: Any) -> Side:
        named = digest(tools) if tools else None
        if named:
            self.messages[named] = list(tools)
        request = digest([self.asked, named, changes.pop("temperature", 0)])
        self.say({"role": "assistant", "content": content})
        asked = tuple(self.asked[:-1])
        return self._step(
            kind=StepKind.LLM, content=content, messages=asked, tools=named, request_digest=request, **changes
        )

    def run(self, command: str, output: str = "ok", exit_code: int = 0) -> Side:
        action = {"kind": "run", "command": command, "cwd": None, "timeout": None, "stdin": None}
        seen = digest([output, exit_code])
        self.say({"role": "user", "content": output})
        return self._step(
            kind=StepKind.RUN, action=json.dumps(action), exit_code=exit_code, stdout=output.encode(), stderr=b"",
            scrubbed_digest=seen, raw_digest=seen,
        )  # fmt: skip

    def submit(self) -> Side:
        return self._step(kind=StepKind.SUBMIT)

    def note(self) -> Side:
        return self._step(kind=StepKind.NOTE, note='{"valid": true}')

    def _step(self, **fields: Any) -> Side:
        self.steps.append(Step(index=len(self.steps), **fields))
        return self


class Two:
    """Two runs whose traces are given."""

    def __init__(self, store: Store) -> None:
        self.history = History(store)
        self.store = store

    def run(self, commit: str, sides: Mapping[str, tuple[str, Side | None]], **changes: Any) -> Run:
        empty = self.history.run(commit, {})
        run = empty.model_copy(update={"id": Run.identify(commit, "of these", empty.regime, (1,))})
        self.store.put_run(run)
        for task, (outcome, side) in sides.items():
            rollout = self.history.rollout(run, task, outcome, **changes)
            trace = None
            if side is not None:
                trace = Trace(rollout=rollout.id, steps=tuple(side.steps), messages=side.messages, log=side.log)
            self.store.commit_rollout(rollout, trace)
        return run

    def parted(self, base: Side | None, cand: Side | None, *, gained: bool = True, **changes: Any) -> FlipDiff:
        """The one flip of two runs."""
        ends = (FAILED, SOLVED) if gained else (SOLVED, FAILED)
        found = self.flips({"t": (ends[0], base)}, {"t": (ends[1], cand)}, **changes)
        assert len(found.shown) == 1
        return found.shown[0]

    def flips(
        self,
        base: Mapping[str, tuple[str, Side | None]],
        cand: Mapping[str, tuple[str, Side | None]],
        *,
        most: int = 20,
        **changes: Any,
    ) -> FlipDiffs:
        before, after = self.run("base", base, **changes), self.run("cand", cand, **changes)
        return self.between(before, after, tasks=list(base), most=most)

    def between(self, base: Run, cand: Run, *, tasks: Sequence[str], most: int = 20) -> FlipDiffs:
        rollouts = self.store.rollouts
        comparison = compare(base, cand, rollouts(base.id), rollouts(cand.id), [], tasks=tasks)
        return flip_diffs(self.store, base, cand, comparison, most=most)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with Store.open(tmp_path / ".ht", create=True) as store:
        yield Two(store)


def _lines(flip: FlipDiff) -> list[tuple[str, str | None, str | None]]:
    assert flip.parted is not None
    return [(row.tag, row.base, row.cand) for row in flip.parted.differing.rows]


def test_a_request_parts_at_the_message_that_differs(two: Two) -> None:
    base = Side().reply("ls").note().run("ls").reply("cat a").run("cat a", "17")
    cand = Side().reply("ls").note().run("ls").say({"role": "user", "content": "Mind the tests."})
    cand.reply("cat b").run("cat b", "18", 1).submit()
    flip = two.parted(base, cand, detail="assert 17 == 18")
    assert flip.parted is not None
    assert (flip.kind, flip.parted.kind, flip.parted.actor) == ("gained", "request", "harness")
    assert flip.parted.sentence == "The candidate's request has 1 message more, at place 5; the 4 before are the same."
    assert _lines(flip) == [("added", None, "[user]"), ("added", None, "Mind the tests.")]
    assert flip.shared == 2
    assert [(line.index, line.kind, line.text, line.exit_code) for line in flip.prefix] == [
        (0, "reply", "ls", None),
        (2, "run", "ls", 0),
    ]
    assert (flip.base.step, flip.cand.step) == (3, 3)
    assert [line.text for line in flip.base.followed] == ["cat a", "cat a"]
    assert [(line.kind, line.exit_code) for line in flip.cand.followed] == [
        ("reply", None),
        ("run", 1),
        ("submit", None),
    ]
    assert flip.cand.tail == "exit 1\n18"
    assert flip.cand.tail_of == "the output of step 4"
    assert flip.base.detail == "assert 17 == 18"


def test_a_message_in_the_middle_is_told_apart_from_the_equal_ones_around_it(two: Two) -> None:
    other = {"role": "system", "content": "Answer with one short command."}
    flip = two.parted(Side().reply("ls"), Side(other, TASK).reply("ls"))
    assert flip.parted is not None
    assert flip.parted.sentence == "Message 1 of the request differs; the 1 after is the same."
    assert _lines(flip) == [
        ("equal", "[system]", "[system]"),
        ("changed", "Answer with one command.", "Answer with one short command."),
    ]
    marks = flip.parted.differing.rows[1]
    assert [(mark.start, mark.end) for mark in marks.cand_marks] == [(16, 22)]
    assert flip.shared == 0 and flip.prefix == ()


def test_tools_and_sampling_are_compared_when_all_messages_are_equal(two: Two) -> None:
    flip = two.parted(Side().reply("ls", tools=[{"name": "run"}]), Side().reply("ls", tools=[{"name": "bash"}]))
    assert flip.parted is not None
    assert flip.parted.sentence == "The messages of the request are the same; its tools differ."
    assert ("changed", '  "name": "run"', '  "name": "bash"') in _lines(flip)


def test_sampling_alone_is_said_so(two: Two) -> None:
    flip = two.parted(Side().reply("ls"), Side().reply("ls", temperature=1))
    assert flip.parted is not None
    assert flip.parted.sentence == "Messages and tools of the request are the same; how it samples differs."
    assert _lines(flip) == []


def test_another_action_after_the_same_reply_is_the_harness(two: Two) -> None:
    flip = two.parted(Side().reply("ls").run("ls"), Side().reply("ls").run("ls -a"))
    assert flip.parted is not None
    assert (flip.parted.kind, flip.parted.actor) == ("action", "harness")
    assert flip.parted.sentence == "After the same exchanges another command was run."
    assert _lines(flip) == [("changed", "ls", "ls -a")]


def test_a_repair_against_a_command_says_who_did_what(two: Two) -> None:
    base = Side().reply("```ls```").say({"role": "user", "content": "Try again."}).reply("ls").run("ls")
    flip = two.parted(base, Side().reply("```ls```").run("ls").submit())
    assert flip.parted is not None
    assert flip.parted.sentence == "After the same exchanges the baseline asked the model; the candidate ran a command."
    assert [row[1:] for row in _lines(flip)] == [("(asks the model)", "(run)"), ("[user]", "ls"), ("Try again.", None)]


def test_another_reply_is_the_model_and_another_output_the_environment(two: Two) -> None:
    flip = two.parted(Side().reply("ls").run("ls"), Side().reply("cat a").run("cat a"))
    assert flip.parted is not None
    assert (flip.parted.kind, flip.parted.actor) == ("reply", "model")
    assert _lines(flip) == [("changed", "ls", "cat a")]
    assert [line.text for line in flip.cand.followed] == ["cat a"]


def test_another_output_of_the_same_action_is_the_environment(two: Two) -> None:
    flip = two.parted(Side().run("date", "17").reply("ls"), Side().run("date", "18").reply("ls"))
    assert flip.parted is not None
    assert (flip.parted.kind, flip.parted.actor) == ("observation", "environment")
    assert flip.parted.sentence == "The same action gave another output: date."
    assert _lines(flip) == [("equal", "exit 0", "exit 0"), ("changed", "17", "18")]
    assert [line.kind for line in flip.base.followed] == ["reply"]


def test_one_side_submits_or_ends_where_the_other_goes_on(two: Two) -> None:
    flip = two.parted(Side().reply("ls"), Side().reply("ls").run("ls").submit())
    assert flip.parted is not None
    assert (flip.parted.kind, flip.parted.actor) == ("outcome", "harness")
    assert flip.parted.sentence == "The baseline had ended here; the candidate went on."
    assert _lines(flip) == [("added", None, "(run)"), ("added", None, "ls")]
    assert (flip.base.step, flip.cand.step) == (None, 1)


def test_a_submission_against_another_step(two: Two) -> None:
    flip = two.parted(Side().reply("ls").submit(), Side().reply("ls").run("ls").submit(), gained=False)
    assert flip.parted is not None
    assert flip.kind == "lost"
    assert flip.parted.sentence == "The baseline submitted here; the candidate went on."


def test_the_same_steps_with_another_grade_are_the_verifier(two: Two) -> None:
    side = Side().reply("ls").run("ls").submit()
    flip = two.parted(side, side)
    assert flip.parted is not None
    assert (flip.parted.kind, flip.parted.actor, _lines(flip)) == ("outcome", "verifier", [])
    assert flip.shared == 3


def test_a_crash_is_told_by_the_harness_log(two: Two) -> None:
    log = "\n".join(f"line {n}" for n in range(40))
    found = two.flips(
        {"t": (SOLVED, Side().reply("ls").run("ls").submit())},
        {"t": ("policy_crash", Side(log=log).reply("ls").run("ls"))},
    )
    side = found.shown[0].cand
    assert side.tail_of == "the harness's log"
    assert side.tail.startswith("… (34 more lines before)\nline 34\n") and side.tail.endswith("line 39")


def test_long_prefixes_and_what_follows_are_bounded_and_counted(two: Two) -> None:
    base, cand = Side(), Side()
    for number in range(20):
        base.reply(f"r{number}").run(f"c{number}")
        cand.reply(f"r{number}").run(f"c{number}")
    cand.say({"role": "user", "content": "Go on."})
    for number in range(20):
        base.reply(f"x{number}")
        cand.reply(f"y{number}")
    flip = two.parted(base, cand)
    assert (flip.shared, len(flip.prefix), flip.folded) == (40, PREFIX, 40 - PREFIX)
    assert flip.prefix[-1].text == "c19"
    assert (len(flip.base.followed), flip.base.left) == (FOLLOWED, 20 - FOLLOWED)


def test_gained_come_before_lost_in_panel_order_and_the_rest_is_named(two: Two) -> None:
    tasks = [f"task-{n}" for n in range(6)]
    base = {t: (SOLVED if n % 2 else FAILED, Side().reply("ls")) for n, t in enumerate(tasks)}
    cand = {t: (FAILED if n % 2 else SOLVED, Side().reply("cat")) for n, t in enumerate(tasks)}
    found = two.flips(base, cand, most=4)
    assert [flip.task for flip in found.shown] == ["task-0", "task-2", "task-4", "task-1"]
    assert found.left_out == ("task-3 s1", "task-5 s1")


def test_a_condensed_flip_says_at_which_step_who_did_something_else(two: Two) -> None:
    base = Side().reply("ls").note().run("ls").reply("cat a")
    cand = Side().reply("ls").run("ls").say({"role": "user", "content": "Mind the tests."}).reply("cat b").submit()
    found = two.flips({"t": (FAILED, base), "u": (FAILED, base)}, {"t": (SOLVED, cand), "u": (SOLVED, base)})
    assert told(found, 1) == [
        "gained t s1: failed_verification → solved",
        "  2 steps shared, the last: run ls (exit 0)",
        "  At step 3 of the baseline, 2 of the candidate, the harness does something else. "
        "The candidate's request has 1 message more, at place 5; the 4 before are the same.",
        "    + [user]",
        "    + Mind the tests.",
        "  baseline:  reply cat a … failed_verification",
        "  candidate: submit … solved",
        "",
        f"Not told here: u s1. `{found.command}` lists where each parts.",
    ]


def test_a_missing_trace_is_said_and_no_error(two: Two) -> None:
    flip = two.parted(Side().reply("ls"), None)
    assert flip.parted is None and flip.prefix == ()
    assert (flip.base.problem, flip.cand.problem) == ("", "no trace was recorded")


def test_a_lost_trace_names_what_can_be_done(two: Two) -> None:
    base = two.run("base", {"t": (FAILED, Side().reply("ls"))})
    cand = two.run("cand", {"t": (SOLVED, Side().reply("cat"))})
    for file in two.store.places.traces.rglob("*.parquet"):
        file.unlink()
    flip = two.between(base, cand, tasks=["t"]).shown[0]
    assert "is missing" in flip.base.problem and "`ht fsck` lists what is lost" in flip.base.problem
    assert flip.cand.outcome == "solved"


def test_text_that_cannot_be_shown_is_not_called_equal(two: Two) -> None:
    hidden = {"role": "user", "content": "Leave the answer in /app.\x1b[0m"}
    flip = two.parted(Side().reply("ls"), Side(SYSTEM, hidden).reply("ls"))
    assert flip.parted is not None
    assert flip.parted.sentence == "A message of the request differs, in characters that cannot be shown."


def test_hostile_text_comes_out_plain(two: Two) -> None:
    evil = {"role": "user", "content": EVIL, "name": EVIL}
    base = Side(log=EVIL).reply(EVIL, tool_calls=json.dumps([{"id": "1", "name": EVIL, "arguments": EVIL}]))
    base.run(EVIL, EVIL).reply("a", error=EVIL)
    cand = Side(evil, log=EVIL).reply(EVIL).run(EVIL, EVIL).submit()
    flip = two.flips({EVIL: ("policy_crash", base)}, {EVIL: (SOLVED, cand)}, detail=EVIL).shown[0]
    assert "red" in flip.task and "<script>" in flip.model_dump_json()
    for text in _texts(flip.model_dump(mode="json")):
        assert plain(text) == text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(item)


def test_a_report_shows_them_in_every_form_and_always_alike(tmp_path: Path, cache_folder: Path) -> None:
    project = tell(Story(epochs=2, tasks=8, holdout=0, steps=6), tmp_path, cache_folder)
    with Store.open(project.root / ".ht") as store:
        report = build(store)
        verdict = store.verdicts()[-1]
        flips = [*verdict.gained, *verdict.lost]
        assert {flip.gained for flip in flips} == {True, False}
        assert [(one.task, one.kind, one.attribution, one.evidence) for one in report.flips.shown] == [
            (flip.task, "gained" if flip.gained else "lost", flip.attribution, flip.evidence) for flip in flips
        ]
        for one in report.flips.shown:
            assert one.parted is not None and one.parted.actor == "harness" and one.parted.differing.differs
        assert to_json(build(store)) == to_json(report)
        for text in (to_text(report), to_markdown(report)):
            part = text[text.index("Where they part") : text.index("Levers")]
            assert all(flip.task in part for flip in flips)
            assert "the harness does something else." in part
            assert part.count("\n") < 12 * len(flips)


def test_a_comparison_that_nobody_judged_is_explained_too(two: Two) -> None:
    base = two.run("base", {"t": (FAILED, Side().reply("ls"))})
    side = Side().say({"role": "user", "content": "Mind the tests."})
    side.reply("cat", ran=("agent/prompt.py:3",))
    cand = two.run("cand", {"t": (SOLVED, side)}, traced="base")
    flip = build(two.store, ReportSpec(base_run=base.id, cand_run=cand.id)).flips.shown[0]
    assert flip.attribution == "attributed"
    assert flip.evidence.startswith("agent/prompt.py:3 ran before step 0")
