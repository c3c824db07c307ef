"""Judging: pure functions over records.  No I/O, no clock, no randomness.

Read this to learn how two runs become a verdict.  May import: core.

alignment.py     compare: every cell of two runs into compared, excluded or open
comparison.py    Comparison, Pair, OpenCell and what follows from them: flips, levers, inputs digest
base.py          the Criterion protocol (registry group `criteria`); Rule, Tally, Loss
pareto.py        strict-pareto
total.py         total-solves
attributed.py    attributed-pareto
attribution.py   whether a flip is the change's doing
secondary.py     what breaks an exact tie: metrics with direction, empty value, loss
certification.py what is known of each cell's environment
gate.py          a model endpoint's replies compared: up to how many requests at once are they equal?
bracket.py       infrastructure noise taken both ways; rule → verdict
statistics.py    exact McNemar and Fisher, detectable effect, Wilson interval
limits.py        several versions on several models: what limits a task, the harness or the model?
early.py         when the rest cannot matter, and what to measure first
transitions.py   baseline outcome by candidate outcome
divergence.py    the first step where two rollouts part
rederive.py      a recorded verdict derived again
"""

from harnesstrain.judge.alignment import compare
from harnesstrain.judge.attributed import AttributedPareto
from harnesstrain.judge.attribution import Attribution, attribute
from harnesstrain.judge.base import Criterion, Loss, Rule, Tally
from harnesstrain.judge.bracket import judged
from harnesstrain.judge.comparison import Comparison, OpenCell, Pair, levers, mode
from harnesstrain.judge.pareto import StrictPareto
from harnesstrain.judge.total import TotalSolves

__all__ = [
    "AttributedPareto",
    "Attribution",
    "Comparison",
    "Criterion",
    "Loss",
    "OpenCell",
    "Pair",
    "Rule",
    "StrictPareto",
    "Tally",
    "TotalSolves",
    "attribute",
    "compare",
    "judged",
    "levers",
    "mode",
]
