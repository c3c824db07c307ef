"""Turn a verdict into a promotion: a compare-and-swap fast-forward of the harness branch, recorded before and after.

Read this to learn what survives a kill between the two.  May import: harness, store (through the context), core.

base.py     the Optimizer protocol
greedy.py   greedy-monotonic: promote iff the loss is negative
stage.py    run(context, spec), repair(context)
"""

from harnesstrain.stages.promote.stage import Promoted, PromoteSpec, repair, run

__all__ = ["PromoteSpec", "Promoted", "repair", "run"]
