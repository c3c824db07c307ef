"""SWE-bench: rows, environment facts, and grades from logs, with nothing of the `swebench` package at run time.

Read this to learn what an instance needs and how its log becomes a verdict.  May import: core.  Nothing here starts
anything or asks a network.

rows.py      rows of a data set → Row
parsers.py   logs of the twelve Python repositories → results by test id
django.py    Django's runner
verdict.py   grade_log: a Row and a log → Verdict
infra.py     signs of broken infrastructure
"""

from harnesstrain.taskset.swebench.rows import Row, read_rows, rows_of
from harnesstrain.taskset.swebench.verdict import Facts, Verdict, grade_log

__all__ = ["Facts", "Row", "Verdict", "grade_log", "read_rows", "rows_of"]
