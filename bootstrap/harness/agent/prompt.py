"""The opening messages of an episode."""

from pathlib import Path

PROMPTS = Path(__file__).resolve().parent.parent / "prompts"


def text(name):
    """A prompt file, without the newline at its end."""
    return (PROMPTS / name).read_text(encoding="utf-8").rstrip("\n")


def opening(ep):
    """The messages before the model's first reply."""
    system = {"role": "system", "content": text("system.md")}
    return [system, *examples(), {"role": "user", "content": task(ep)}]


def task(ep):
    """The task as the model is told it."""
    told = text("task.md").replace("{workdir}", ep.task.workdir).replace("{instruction}", ep.task.instruction)
    return told + surroundings(ep)


def examples():
    """Messages that show how an episode goes: prompts/examples/*.md, where a line `--- role` starts each message.

    Thin: there are none.  The system prompt describes the format; nothing demonstrates it.
    """
    parts = []
    for path in sorted(PROMPTS.glob("examples/*.md")):
        parts += path.read_text(encoding="utf-8").split("--- ")[1:]
    split = [part.partition("\n") for part in parts]
    return [{"role": role.strip(), "content": told.strip("\n")} for role, _, told in split]


def surroundings(ep):
    """What the model is told about the environment besides the task.

    Thin: nothing.  The model has to ask for what it wants to know.
    """
    return ""
