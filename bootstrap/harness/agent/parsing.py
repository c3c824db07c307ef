"""A model's reply -> an Action, or why it is none: `body` finds the text, `decode` reads it, `action` checks it."""

import json
from collections import namedtuple

Action = namedtuple("Action", "tool arguments")
"""One thing to do: a tool's name and its arguments, a dict."""

FIELDS = {"run": ["command"], "submit": []}
"""The text fields each tool needs."""


class Invalid(Exception):
    """The reply is no action; the message says why."""


def parse(reply):
    """The Action in a reply's text.  Raises Invalid."""
    return action(decode(body(reply)))


def body(reply):
    """The part of a reply that holds the action.

    Thin: all of it.  A reply with anything around its JSON is no action.
    """
    return reply


def decode(text):
    """The value that `text` stands for.  Raises Invalid.

    Thin: strict JSON.  Nothing is guessed.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid("not JSON: {}".format(error)) from error


def action(data):
    """The Action that decoded JSON stands for.  Raises Invalid."""
    if not isinstance(data, dict):
        raise Invalid("not a JSON object")
    tool = data.get("tool")
    if tool not in FIELDS:
        raise Invalid("no such tool: {!r}".format(tool))
    arguments = {name: data.get(name) for name in FIELDS[tool]}
    for name, value in arguments.items():
        if not isinstance(value, str) or not value.strip():
            raise Invalid("{} needs a text in {!r}".format(tool, name))
    return Action(tool, arguments)
