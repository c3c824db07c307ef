"""Single stages.  Each is `run(context, spec) -> Outcome`, and they talk only through records in the store.

Read this to learn what one turn of the loop is made of.  May import: measure, judge, the devices, core.

evaluate/   measure a harness version over a panel
certify/    re-execute recorded chains: is the environment deterministic?
propose/    let an estimator change the harness, and capture what it did
judging/    compare two runs with a criterion
promote/    turn a verdict into a promotion, or not
report/     explain what happened; reads the store alone
export/     hand rollouts to other programs; reads the store alone
serve/      serve a frozen model
"""
