"""The older Terminal-Bench format: one directory a task, described by a task.yaml and a docker-compose.yaml.

Read this to learn how such a task becomes a Task.  May import: core.  Nothing here starts anything.

    task.yaml  docker-compose.yaml  Dockerfile  run-tests.sh  solution.sh | solution.yaml  tests/…

format.py      TerminalBenchFormat: the directory → Task
taskfile.py    task.yaml, validated
yamlfile.py    YAML files read strictly: errors say file and line
compose.py     docker-compose.yaml: what its one service sets, and what no single container can give
unfold.py      the parts of a task laid out as a sandbox takes them, in the user's cache
keystrokes.py  solution.yaml: what a person would type, as a script
parsers.py     what the tests printed → passed or not, by the five parsers of the format
"""

from harnesstrain.taskset.terminalbench.format import TerminalBenchFormat
from harnesstrain.taskset.terminalbench.parsers import graded
from harnesstrain.taskset.terminalbench.unfold import PRINTED

__all__ = ["PRINTED", "TerminalBenchFormat", "graded"]
