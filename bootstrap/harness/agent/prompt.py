"""The opening messages of an episode.

Thin: the instruction and the working directory, nothing that was looked up in the environment, no example.
"""

from pathlib import Path

PROMPTS = Path(__file__).resolve().parent.parent / "prompts"


def text(name):
    """A prompt file, without the newline at its end."""
    return (PROMPTS / name).read_text(encoding="utf-8").rstrip("\n")


def opening(ep):
    """The messages before the model's first reply."""
    system = text("system.md")
    task = text("task.md").replace("{workdir}", ep.task.workdir).replace("{instruction}", ep.task.instruction)
    return [{"role": "system", "content": system}, {"role": "user", "content": task}]
