"""What every version of the loop must keep: it acts, it hands in, it ends."""

import json

from agent.loop import solve
from ht_sdk import ContextOverflow
from tests.fake import FakeEpisode

SUBMIT = json.dumps({"tool": "submit"})


def run(command):
    return json.dumps({"tool": "run", "command": command})


def said(episode):
    return json.dumps(episode.requests[-1])


def test_a_command_acts_and_its_output_is_shown(tmp_path):
    episode = FakeEpisode(tmp_path, [run("echo hello > a.txt; cat a.txt"), SUBMIT, SUBMIT, SUBMIT])
    solve(episode)
    assert (tmp_path / "a.txt").read_text() == "hello\n"
    assert "hello" in said(episode)
    assert episode.submitted


def test_a_failing_command_is_shown_as_failed(tmp_path):
    episode = FakeEpisode(tmp_path, [run("echo oops >&2; exit 7"), SUBMIT, SUBMIT, SUBMIT])
    solve(episode)
    assert "7" in episode.requests[1][-1]["content"]
    assert "oops" in episode.requests[1][-1]["content"]


def test_the_task_is_told(tmp_path):
    episode = FakeEpisode(tmp_path, [SUBMIT] * 3, instruction="Count the {workdir} lines.")
    solve(episode)
    opening = json.dumps(episode.requests[0])
    assert "Count the {workdir} lines." in opening
    assert str(tmp_path) in opening


def test_valid_and_invalid_replies_are_noted(tmp_path):
    episode = FakeEpisode(tmp_path, ["Let me think.", run("true"), SUBMIT, SUBMIT, SUBMIT])
    solve(episode)
    assert [note["valid"] for note in episode.notes if "valid" in note][:2] == [False, True]


def test_it_stops_when_no_reply_is_an_action(tmp_path):
    episode = FakeEpisode(tmp_path, ["Let me think."] * 50)
    solve(episode)
    assert not episode.submitted
    assert len(episode.requests) < 50
    assert not episode.commands or all("think" not in command for command in episode.commands)


def test_an_overflow_does_not_crash(tmp_path):
    episode = FakeEpisode(tmp_path, [ContextOverflow("too long")] * 5)
    solve(episode)


def test_long_output_does_not_fill_the_context(tmp_path):
    episode = FakeEpisode(tmp_path, [run("seq 1 100000"), SUBMIT, SUBMIT, SUBMIT])
    solve(episode)
    assert len(episode.requests[1][-1]["content"]) < 8000


def test_messages_that_were_sent_stay(tmp_path):
    """The model server continues from what it has read; an edited message makes it start again."""
    episode = FakeEpisode(tmp_path, [run("echo one"), run("echo two"), SUBMIT, SUBMIT, SUBMIT])
    solve(episode)
    for before, after in zip(episode.requests, episode.requests[1:]):
        assert after[: len(before)] == before
