"""What a command does, and what the model sees of it."""

from agent.history import clip

TIMEOUT = 60
"""Seconds a command may take."""


def execute(ep, command):
    """Do `command` in the environment of `ep` and return what the model is shown."""
    return observation(run(ep, command)) + effects(ep)


def run(ep, command):
    """The result of `command`.

    Thin: it runs as the model wrote it.
    """
    return ep.run(command, timeout=TIMEOUT)


def observation(result):
    """A command's result as text."""
    parts = ["exit code: {}".format(result.exit_code)]
    if result.timed_out:
        parts.append("(timed out after {} seconds)".format(TIMEOUT))
    output = result.stdout + result.stderr
    if output.strip():
        parts.append(clip(output.rstrip("\n")))
    return "\n".join(parts)


def effects(ep):
    """What the last command did besides printing, as text.

    Thin: nothing.  A command that writes a file shows an empty output.
    """
    return ""
