"""Compare two complete runs with a criterion and record the verdict.

Read this to learn how a comparison is assembled from records.  May import: judge, store (through the context), core.

stage.py   run(context, spec)
derive.py  a recorded verdict derived again
"""

from harnesstrain.stages.judging.stage import JudgeSpec, run

__all__ = ["JudgeSpec", "run"]
