"""What every version of the parser must keep: plain actions work, prose is no action."""

import json

import pytest

from agent.parsing import Invalid, parse


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "wc -l < notes.txt",
        'echo "two words" > out.txt',
        "printf 'a\\nb\\n' | sort -u",
        "cat <<'END' > f.py\nprint(1)\nEND",
        "grep -c naïve texte.txt",
    ],
)
def test_a_command_arrives_as_written(command):
    action = parse(json.dumps({"tool": "run", "command": command}))
    assert action.tool == "run"
    assert action.arguments["command"] == command


def test_submit():
    assert parse('{"tool": "submit"}').tool == "submit"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I will look at the files first.",
        '{"tool": "run", "command": ',
        '{"tool": "run"}',
        '{"tool": "run", "command": ""}',
        '{"tool": "run", "command": 3}',
        '{"tool": "fly"}',
        "[]",
    ],
)
def test_no_action(reply):
    with pytest.raises(Invalid):
        parse(reply)
