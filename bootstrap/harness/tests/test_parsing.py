"""What every version of the parser must keep: plain actions work, prose is no action."""

import json
import unittest

from agent.parsing import Invalid, parse

COMMANDS = [
    "ls -la",
    "wc -l < notes.txt",
    'echo "two words" > out.txt',
    "printf 'a\\nb\\n' | sort -u",
    "cat <<'END' > f.py\nprint(1)\nEND",
    "grep -c naïve texte.txt",
]

NO_ACTIONS = [
    "",
    "I will look at the files first.",
    '{"tool": "run", "command": ',
    '{"tool": "run"}',
    '{"tool": "run", "command": ""}',
    '{"tool": "run", "command": 3}',
    '{"tool": "fly"}',
    "[]",
]


class Parsing(unittest.TestCase):
    def test_a_command_arrives_as_written(self):
        for command in COMMANDS:
            with self.subTest(command):
                action = parse(json.dumps({"tool": "run", "command": command}))
                self.assertEqual(action.tool, "run")
                self.assertEqual(action.arguments["command"], command)

    def test_submit(self):
        self.assertEqual(parse('{"tool": "submit"}').tool, "submit")

    def test_no_action(self):
        for reply in NO_ACTIONS:
            with self.subTest(reply), self.assertRaises(Invalid):
                parse(reply)
