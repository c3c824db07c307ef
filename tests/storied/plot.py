"""What each epoch tries, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

GAINS = (
    ("fences", "Take the action out of a code fence"),
    ("blocks", "Let the model write commands as shell blocks"),
    ("files", "Show the files as they are, and how one is written again"),
    ("errors", "Say what failed before asking for a repair"),
    ("paths", "Name the working directory in every prompt"),
    ("tests", "Run the task's own example before submitting"),
    ("tail", "Keep the end of long output, where the error is"),
    ("rules", "Give the model three rules of thumb"),
)
"""Abilities, in the order in which they are found, and their hypotheses."""
FAULTS = (
    ("first-line", "Keep only the first line of a reply"),
    ("short", "Cut observations at 200 characters"),
    ("repair", "Show how a script is repaired"),
    ("quiet", "Leave out the exit code of commands that succeed"),
)
"""What breaks things, and the hypotheses that promised otherwise."""
IDLE = (
    ("handbook", "Give the model a handbook of good practice"),
    ("wording", "Say command line where a command line is meant"),
    ("examples", "Show two worked examples"),
)
"""What changes requests and no outcome."""
UNSEEN = ("thanks", "Thank the model for every answer")
"""What no task ever sees."""

TURNS = (
    "gain", "lose", "gain", "idle", "skip", "gain", "stop",
    "noise", "gain", "invalid", "unseen", "idle", "gain", "lose",
)  # fmt: skip
"""What the epochs are, over and over."""


@dataclass(frozen=True)
class Turn:
    """One epoch."""

    kind: str
    """gain, lose (what it gains it loses elsewhere), stop (loses, and an early decision leaves cells out), idle, unseen
    (never acts), noise (the infrastructure fails), skip (no candidate), invalid (one that breaks a rule)."""
    abilities: tuple[str, ...]
    """What the change adds to the version.  Which fault comes with it depends on what the version can do."""
    hypothesis: str
    name: str
    """Of the file that changes."""


def turns(epochs: int) -> list[Turn]:
    """The plot of so many epochs.  When all abilities are found, what gained is tried again and changes nothing."""
    found = faults = idle = 0
    made = []
    for number in range(epochs):
        kind = TURNS[number % len(TURNS)]
        if kind == "gain" and found == len(GAINS):
            kind = "idle"
        if kind == "gain":
            ability, hypothesis = GAINS[found]
            found += 1
        elif kind in ("lose", "stop"):
            ability, hypothesis = FAULTS[faults % len(FAULTS)]
            faults += 1
            gain = (GAINS[found][0],) if kind == "lose" and found < len(GAINS) else ()
            made.append(Turn(kind, gain, hypothesis, ability))
            continue
        elif kind == "unseen":
            ability, hypothesis = UNSEEN
        else:
            ability, hypothesis = IDLE[idle % len(IDLE)]
            idle += 1
        again = f", {number // len(TURNS) + 1}" if number >= len(TURNS) else ""
        made.append(Turn(kind, (ability,), hypothesis + again, ability))
    return made
