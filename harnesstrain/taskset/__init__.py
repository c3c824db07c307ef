"""Task sets: directories of tasks, and the panels that select from them.

Read this to learn what a task directory may hold, what its digest covers and how a panel is written.  May import: core.
The native format is Harbor's task directory.  What no Linux container gives is reported as unsupported before anything
starts; what only some sandboxes give is theirs to refuse.

base.py       TaskFormat: what another format implements.  load_task, inspect_task
harbor.py     the Harbor task directory → Task
parts.py      its environments, verifiers, solutions, each with its digest
steps.py      its steps
instruction.py  an instruction as it is shown
schema.py     the tables of task.toml, schema 1.0 to 1.4
document.py   TOML files read strictly: errors say file and line
content.py    digest of a directory: every name, byte, executable bit and link
published.py  the digest under which Harbor's registries name a task
panelfile.py  tasksets/NAME.toml: [panel] with its splits
panels.py     load_panel: find, expand, load, select
source.py     where the tasks of a panel are published, and where they lie once pulled
pull/         data sets brought into the user's cache, whole and checked
checking.py   check_panel: each task ok, unsupported or in error, and why
limits.py     what a task may ask for, and what is asked in vain
templates.py  ${VAR:-default} in a task.toml
swebench/     SWE-bench: rows → Task, environment facts, changes as patches, grades from logs
unfolded.py   the folder of laid-out tasks in the cache
terminalbench/ the older Terminal-Bench task directory → Task, and its five parsers
"""

from harnesstrain.taskset.base import Inspected, TaskFormat, inspect_task, load_task
from harnesstrain.taskset.checking import PanelCheck, TaskCheck, check_loaded, check_panel, reasons_of
from harnesstrain.taskset.panels import LoadedPanel, load_panel, panel_names
from harnesstrain.taskset.templates import against_host, allowed, needs_of_host, with_host

__all__ = [
    "Inspected",
    "LoadedPanel",
    "PanelCheck",
    "TaskCheck",
    "TaskFormat",
    "against_host",
    "allowed",
    "check_loaded",
    "check_panel",
    "inspect_task",
    "load_panel",
    "load_task",
    "needs_of_host",
    "panel_names",
    "reasons_of",
    "with_host",
]
