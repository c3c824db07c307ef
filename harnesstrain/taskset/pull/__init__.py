"""Data sets brought into the user's cache: from a directory, an archive, rows, or files that git read.

Read this to learn what is trusted of a data set that somebody else made: nothing.  May import: core.  Nothing here
asks a network; whoever calls hands over the files of a fetched commit.

laying.py    files written below one directory, whatever their names say
archives.py  tar and zip, laid out
finding.py   where in a tree the tasks are
rows.py      SWE-bench rows: one directory an instance
shelf.py     the data sets here: made whole or not at all, with a manifest
"""

from harnesstrain.taskset.pull.archives import is_archive, unpack
from harnesstrain.taskset.pull.finding import Found, find_tasks
from harnesstrain.taskset.pull.laying import Layout, inside
from harnesstrain.taskset.pull.rows import PLACES, all_rows, lay_rows, rows_in, unusable
from harnesstrain.taskset.pull.shelf import Manifest, Placed, Shelf, Wanted, changed, here

__all__ = [
    "PLACES",
    "Found",
    "Layout",
    "Manifest",
    "Placed",
    "Shelf",
    "Wanted",
    "all_rows",
    "changed",
    "find_tasks",
    "here",
    "inside",
    "is_archive",
    "lay_rows",
    "rows_in",
    "unpack",
    "unusable",
]
