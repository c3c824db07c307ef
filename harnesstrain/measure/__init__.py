"""From a run to its rollouts: which cells are missing, who executes them, and the single writer.

Read this to learn how a run resumes.  May import: rollout, judge, the devices, core.

context.py     what every stage is given: settings, store, harness repo, events, stop signal
bench.py       devices opened from settings: model, sandbox, regime
trust.py       what a model certificate means for a run: limits, sentinels
project.py     settings → an open context
endpoint.py    settings → which model to connect to
endpoints.py   further models by the names people give them
doctor.py      what this machine can do, and how to mend what it cannot
regimes.py     what differs between a run's regime and the one in use
resuming.py    the command that goes on with a run
sandboxes.py   settings → a sandbox that isolates, unless the user accepts one that does not
plan.py        which cells of a run are missing
driver.py      executes missing cells and writes each result
line.py        results taken in the order their cells were started
executors/     where cells execute: local threads; others are plugins
"""
