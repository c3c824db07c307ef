"""Let an estimator change the harness, and capture what it did.  No estimator is trusted.

Read this to learn how a change becomes a candidate, or why it does not.  May import: harness, store, llm (through
the context), core.

base.py        the Estimator protocol, Evidence, Workshop
evidence.py    what an estimator is shown, staged as files
ledger.py      what was tried so far, and the memo made of facts alone
capture.py     workspace → one child commit → guards → check → Candidate
stage.py       run(context, spec), diagnose(context, spec)
estimators/    patches, agent, llm
"""

from harnesstrain.stages.propose.stage import DiagnoseSpec, ProposeSpec, diagnose, run

__all__ = ["DiagnoseSpec", "ProposeSpec", "diagnose", "run"]
