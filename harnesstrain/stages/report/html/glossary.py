"""What the words on the page mean."""

from __future__ import annotations

GLOSSARY: tuple[tuple[str, str], ...] = (
    ("harness", "the program around the model: prompts, tools, parsing, repair; it is what is trained"),
    ("panel, split", "the tasks it is measured on; the loop chooses by train and never sees holdout"),
    ("cell", "one task with one seed, measured once"),
    ("baseline, candidate", "the version before, and the one with the proposed change"),
    ("epoch", "one turn: propose a change, measure it, judge it, promote or reject it"),
    ("selected, promoted", "the criterion was for it; the harness's branch was moved to it"),
    ("strict-pareto", "the criterion that rejects a change which loses a solved task, whatever it gains"),
    ("unmeasurable", "what is known does not suffice for a verdict; it is no rejection"),
    ("not needed", "left unmeasured, as no outcome there could change the verdict"),
    ("flip", "a cell that only one side solves"),
    ("regime", "everything besides the harness that decides a measurement: model, sampling, sandbox, budgets, grading"),
    ("certified", "the recorded commands, executed again elsewhere, gave the same outputs; if not, the task is forked"),
    ("proven unchanged", "same requests and actions, so that the change had no effect there"),
    ("McNemar p", "how often chance alone would gain as much, from the flips; with few tasks it cannot be small"),
    ("Wilson interval", "where the true share of solves lies, with 95 % confidence, from so few tasks"),
    ("estimator", "what proposed the changes: a queue of patches, an agent, a model"),
    ("recorded seconds", "as they took when they were first done; the same on every replay"),
)
"""Word and meaning."""
