"""SWE-bench: rows, environment facts, and grades from logs, with nothing of the `swebench` package at run time.

Read this to learn what an instance needs and how its log becomes a verdict.  May import: core.  Nothing here starts
anything or asks a network.

rows.py      rows of a data set → Row
facts.py     per repository and version: python, install, test command
spec.py      spec_of: a Row → image, commands, files of the verifier, verify key
script.py    the text of the evaluation script
diffs.py     which files a git diff touches
patches.py   a change as a patch: capture, digest, the ladder of ways to apply it
parsers.py   logs of the twelve Python repositories → results by test id
django.py    Django's runner
verdict.py   grade_log: a Row and a log → Verdict
infra.py     signs of broken infrastructure
format.py    SweBenchFormat: a directory with a row.json → Task
unfold.py    its files laid out as a sandbox takes them, in the user's cache
"""

from harnesstrain.taskset.swebench.patches import Patch, patch_of
from harnesstrain.taskset.swebench.rows import Row, read_rows, rows_of
from harnesstrain.taskset.swebench.spec import Spec, spec_of, task_spec
from harnesstrain.taskset.swebench.verdict import Facts, Verdict, grade_log

__all__ = [
    "Facts",
    "Patch",
    "Row",
    "Spec",
    "Verdict",
    "grade_log",
    "patch_of",
    "read_rows",
    "rows_of",
    "spec_of",
    "task_spec",
]
