"""A store with a whole history in it, made without a model: for tests of what explains a history, and for their speed.

The harness repo has a real commit per candidate; every rollout has a trace; verdicts and attributions are those that
the judging stage derives.  Behaviour follows from two sets: what a version can do, and what a task needs.

plot.py      what each epoch tries, and what comes of it
tasks.py     the tasks and what they need
behaviour.py what a version does on a task: a trace and an outcome
telling.py   the epochs, committed one after the other
"""

from tests.storied.telling import Story, tell

__all__ = ["Story", "tell"]
