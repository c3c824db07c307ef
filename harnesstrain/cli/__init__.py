"""The command line: the only room that prints, exits, or reads arguments and environment.

Read this to find a command.  May import: everything below.  Rooms are imported inside commands, so `ht --help` is fast.

app.py         the Typer application, `main()`, plugin commands (`ht-foo` on PATH)
exits.py       errors → one line, a hint, an exit code; signals
output.py      stdout is data, stderr is talk; the --json envelope; control sequences stripped
options.py     options that several commands share
session.py     a project opened for one command
revisions.py   `@`, `@~2`, `e7`, git revisions, ids, ranges, `-`
runs.py        names → runs and verdicts
choosing.py    which model's runs, where versions were measured on several
lost.py        what a lost trace means
begun.py       runs that were broken off, for `ht status`
endpoints.py   the same measurement on several models
durations.py   `90s`, `2h`
traces.py      traces for scripts
certifying.py  what `ht certify` does for each part
serving.py     what `ht serve-llm` says
pulling.py     progress of `ht model pull`
datasets.py    what `ht tasks pull` does
prebuilding.py what `ht tasks prebuild` does
checking.py    what `ht tasks check` does
tasks.py       what `ht tasks oracle` does
exporting.py   what `ht export` prints
frames.py      what `ht export --parquet` and `--csv` write
importing.py   what `ht import` prints
grading.py     verdicts from logs, for `ht tasks grade-log`
walkthrough.py what `ht quickstart` runs
showing.py     any record, for `ht show`
page.py        the page of one record
portraits.py   what happened: runs, rollouts, candidates, verdicts …
particulars.py what runs are made of: regimes, panels, tasks, endpoints, certificates
doubting.py    why a verdict is unmeasurable
parting.py     where two runs part, for `ht diff`
siding.py      one cell of two runs, side by side
measuring.py   what `ht evaluate` does around the stage
progress.py    bars on a terminal, lines elsewhere
tables.py      records as rows for people
onlooking.py   look after look, for `ht watch`
watching.py    one moment as lines
paging.py      long output through a pager
chronicle.py   `ht log` as lines
reporting.py   a report on a terminal
pages.py       a report in files
styled.py      lines with styles; foreign text is cleaned here
screen.py      a terminal taken over for a while
commands/      one file per command
"""
