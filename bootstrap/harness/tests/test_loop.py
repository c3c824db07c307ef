"""What every version of the loop must keep: it acts, it hands in, it ends."""

import json
import tempfile
import unittest
from pathlib import Path

from agent.loop import solve
from ht_sdk import ContextOverflow
from tests.fake import FakeEpisode

SUBMIT = json.dumps({"tool": "submit"})


def run(command):
    return json.dumps({"tool": "run", "command": command})


class Loop(unittest.TestCase):
    def play(self, replies, instruction="Do it."):
        """The episode after the model said `replies`."""
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.directory = Path(held.name)
        episode = FakeEpisode(self.directory, replies, instruction)
        solve(episode)
        return episode

    def test_a_command_acts_and_its_output_is_shown(self):
        episode = self.play([run("echo hello > a.txt; cat a.txt"), SUBMIT, SUBMIT, SUBMIT])
        self.assertEqual((self.directory / "a.txt").read_text(), "hello\n")
        self.assertIn("hello", json.dumps(episode.requests[-1]))
        self.assertTrue(episode.submitted)

    def test_a_failing_command_is_shown_as_failed(self):
        episode = self.play([run("echo oops >&2; exit 7"), SUBMIT, SUBMIT, SUBMIT])
        told = episode.requests[1][-1]["content"]
        self.assertIn("7", told)
        self.assertIn("oops", told)

    def test_the_task_is_told(self):
        episode = self.play([SUBMIT] * 3, instruction="Count the {workdir} lines.")
        opening = json.dumps(episode.requests[0])
        self.assertIn("Count the {workdir} lines.", opening)
        self.assertIn(str(self.directory), opening)

    def test_valid_and_invalid_replies_are_noted(self):
        episode = self.play(["Let me think.", run("true"), SUBMIT, SUBMIT, SUBMIT])
        self.assertEqual([note["valid"] for note in episode.notes if "valid" in note][:2], [False, True])

    def test_it_stops_when_no_reply_is_an_action(self):
        episode = self.play(["Let me think."] * 50)
        self.assertFalse(episode.submitted)
        self.assertLess(len(episode.requests), 50)
        self.assertFalse([command for command in episode.commands if "think" in command])

    def test_an_overflow_does_not_crash(self):
        self.play([ContextOverflow("too long")] * 5)

    def test_long_output_does_not_fill_the_context(self):
        episode = self.play([run("seq 1 100000"), SUBMIT, SUBMIT, SUBMIT])
        self.assertLess(len(episode.requests[1][-1]["content"]), 8000)

    def test_messages_that_were_sent_stay(self):
        """The model server continues from what it has read; an edited message makes it start again."""
        episode = self.play([run("echo one"), run("echo two"), SUBMIT, SUBMIT, SUBMIT])
        for before, after in zip(episode.requests, episode.requests[1:]):
            self.assertEqual(after[: len(before)], before)
