"""What an Action does, and what the model sees of it.

Thin: one tool that acts, and its raw output.
"""

from agent.history import clip

TIMEOUT = 60
"""Seconds a command may take."""


def execute(ep, action):
    """Do `action` in the environment of `ep` and return what the model is shown."""
    result = ep.run(action.arguments["command"], timeout=TIMEOUT)
    return observation(result)


def observation(result):
    """A command's result as text."""
    parts = ["exit code: {}".format(result.exit_code)]
    if result.timed_out:
        parts.append("(timed out after {} seconds)".format(TIMEOUT))
    output = result.stdout + result.stderr
    if output.strip():
        parts.append(clip(output.rstrip("\n")))
    return "\n".join(parts)
