"""Explain what happened, from the store alone.

Read this to learn what a report says and where each number comes from.  May import: judge, store's named results, core;
nothing that can run something.

source.py     what is read: the part of the store without side effects
records.py    Report, as data
build.py      records → Report
pairing.py    two runs, aligned
beyond.py     other splits, the line of promotions
models.py     harness × model, what limits each task
models_part.py the same as titled parts
gradings.py   whether the verifiers repeat themselves
history.py    rows for `ht log`, the state for `ht status`, the solve curve
live.py       what is going on now, look by look, for `ht watch`
moment.py     one such moment, as data
pace.py       about how long a run still takes
matrix.py     task by epoch
spending.py   tokens, calls and time: for each task, for each solve, by how rollouts end
noise.py      caches, retries, infrastructure failures, drift
regimes.py    what else the store's runs were measured under
changes.py    the harness diff
summary.py    the report in a few sentences, and whether to believe it
flips.py      where each flipped cell parts, as data
flipdiffs.py  two runs → that, from the traces of flipped cells
linediff.py   two texts side by side, equal stretches folded
steplines.py  what a step says or does, whole or in one line
flip_parts.py a flip in a few lines
traces.py     a whole rollout, as data for a page
promoted.py   what promoted changes did, and where they acted
levers.py     secondary measurements as people read them
overview_parts.py, cost_parts.py  parts of sections.py: the report in short, the matrix; spending, noise, the diff
sections.py   a Report as titled parts in reading order
tables.py     one table as aligned text or Markdown
plain.py      foreign text made safe to show
render.py     to_text, to_markdown, to_json
html/         to_html: one page, or a folder with every trace
"""

from harnesstrain.stages.report.build import ReportSpec, build
from harnesstrain.stages.report.history import LogRow, Score, Status, log, sparkline, status
from harnesstrain.stages.report.records import Report
from harnesstrain.stages.report.render import to_json, to_markdown, to_text

__all__ = [
    "LogRow",
    "Report",
    "ReportSpec",
    "Score",
    "Status",
    "build",
    "log",
    "sparkline",
    "status",
    "to_json",
    "to_markdown",
    "to_text",
]
