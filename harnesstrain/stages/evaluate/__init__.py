"""Measure one harness version over one panel under one regime.  The same command is the same run: rerunning resumes.

Read this to learn what a run is made of.  May import: measure, rollout, the devices, core.

spec.py       what is asked (EvaluateSpec) and what came of it (Evaluated, Estimate)
identify.py   commit + panel + regime + seeds → the run
early.py      when the rest of a candidate's run cannot change the verdict
alone.py      one process measures a run; others wait for it
telling.py    what is under way, told beside the run's lease
stage.py      run(context, spec)
"""

from harnesstrain.stages.evaluate.spec import Estimate, Evaluated, EvaluateSpec
from harnesstrain.stages.evaluate.stage import dry_run, run

__all__ = ["Estimate", "EvaluateSpec", "Evaluated", "dry_run", "run"]
